"""Wrapping of connections: what comes before HTTP, which is TLS and, before that, the balancer's word of who the client is."""

from collections.abc import Callable

from twisted.internet.interfaces import IProtocolFactory
from twisted.protocols.tls import TLSMemoryBIOFactory

from proxy.listener.first_bytes import FirstBytesFactory
from proxy.listener.limits import ListenerLimits
from proxy.listener.proxy_protocol.wrapper import ProxyProtocolFactory
from proxy.listener.state import ListenerState
from proxy.listener.tls.acme_challenge import AcmeChallengeFactory
from proxy.listener.tls.acme_state import AcmeState
from proxy.listener.tls.certificates import Certificates, CurrentCertificates
from proxy.listener.tunnel import HalfClosingTLS


def wrapped(
    factory: IProtocolFactory,
    current: Callable[[], ListenerState],
    *,
    is_behind_balancer: bool = False,
    obtained: AcmeState | None = None,
) -> IProtocolFactory:
    """Factory behind TLS, where the state has certificates now, and behind the PROXY protocol.  `current` is asked at each connection."""

    def limits() -> ListenerLimits:
        return current().limits

    if current().certificates is not None:
        factory = AcmeChallengeFactory(_tls(current, factory), limits, obtained or AcmeState())
    return ProxyProtocolFactory(factory, limits) if is_behind_balancer else factory


def has_tls(factory: IProtocolFactory) -> bool:
    """Whether connections of this factory are TLS, whatever comes before it."""
    while isinstance(factory, FirstBytesFactory):
        factory = factory.factory
    return isinstance(factory, TLSMemoryBIOFactory)


def _tls(current: Callable[[], ListenerState], factory: IProtocolFactory) -> IProtocolFactory:
    def certificates() -> Certificates:
        found = current().certificates
        if found is None:
            raise RuntimeError("a listener that began with TLS keeps it")
        return found

    tls = TLSMemoryBIOFactory(CurrentCertificates(certificates), False, factory)
    tls.protocol = HalfClosingTLS
    return tls
