"""TLS-ALPN-01 challenge (RFC 8737): answers the authority that connects to see whether a host is ours.

OpenSSL chooses a certificate by name before it looks at the protocols that a client offers, so the ClientHello is read before it.
What is no such validation goes on to OpenSSL as it came.  What is one never reaches HTTP: it ends with the handshake.
"""

from collections.abc import Callable
from typing import Any

import structlog
from OpenSSL import SSL
from twisted.internet.interfaces import IAddress, IHandshakeListener, IOpenSSLServerConnectionCreator, IProtocol, IProtocolFactory
from twisted.internet.protocol import Factory
from twisted.protocols.tls import TLSMemoryBIOFactory
from zope.interface import implementer

from proxy.listener.listener_limits import ListenerLimits
from proxy.listener.preamble import PreambleFactory, PreambleProtocol
from proxy.listener.tls.acme_state import AcmeChallenge, AcmeState
from proxy.listener.tls.client_hello import ClientHello, ClientHelloParser, UnreadableClientHello
from proxy.listener.tls.self_signed import ACME_TLS, tls_alpn_context

log = structlog.get_logger(__name__)

MOST_SECONDS = 10.0  # of the authority's handshake
# A fatal alert, no_application_protocol (RFC 8446 6.2), as a record of its own.
_NO_SUCH_PROTOCOL = b"\x15\x03\x03\x00\x02\x02\x78"


class AcmeChallengeFactory(PreambleFactory):
    def __init__(self, factory: IProtocolFactory, limits: Callable[[], ListenerLimits], obtained: AcmeState):
        super().__init__(factory)
        self.limits = limits
        self.obtained = obtained

    def buildProtocol(self, addr: IAddress) -> IProtocol | None:
        # The setting may change while the listener runs.
        return HelloReader(self) if self.obtained.is_enabled else self.factory.buildProtocol(addr)


class ChallengesAlone(AcmeChallengeFactory):
    """Factory where nothing but challenges is answered: behind a proxy that has looked at the protocols before."""

    def __init__(self, limits: Callable[[], ListenerLimits], obtained: AcmeState):
        refused = Factory.forProtocol(RefusedHello)
        refused.noisy = False
        super().__init__(refused, limits, obtained)


class RefusedHello(PreambleProtocol):
    """Protocol of who offers `acme-tls/1` beside others."""

    def __init__(self) -> None:
        super().__init__(MOST_SECONDS)

    def inspect(self) -> None:
        self.received = b""
        refuse(self.transport)


class HelloReader(PreambleProtocol):
    def __init__(self, before: AcmeChallengeFactory):
        super().__init__(before.limits().read_timeout)
        self._before = before
        self._incoming = ClientHelloParser()
        self._looked_at = 0

    def inspect(self) -> None:
        new, self._looked_at = self.received[self._looked_at :], len(self.received)
        try:
            hello = self._incoming.take(new)
        except UnreadableClientHello:
            hello = ClientHello(None, ())
        if hello is None:
            return
        if hello.protocols == (ACME_TLS,):
            self._validate(hello)
        else:
            self.switch_to(self._before.factory, self.received)

    def _validate(self, hello: ClientHello) -> None:
        host = (hello.server_name or b"").decode("ascii", "replace").lower()
        challenge = self._before.obtained.pending_challenge(host)
        if challenge is None or challenge.kind != "tls-alpn-01":
            self._cancel_timer()
            refuse(self.transport)
        else:
            log.info("answering ACME challenge", host=host, challenge=challenge.kind)
            ends_soon = Factory.forProtocol(ChallengeConnection)
            ends_soon.noisy = False
            self.switch_to(TLSMemoryBIOFactory(_Prover(challenge), False, ends_soon), self.received)


def refuse(transport: Any) -> None:
    """Refuse a handshake in TLS's own words."""
    transport.write(_NO_SUCH_PROTOCOL)
    transport.loseConnection()


@implementer(IOpenSSLServerConnectionCreator)
class _Prover:
    def __init__(self, challenge: AcmeChallenge):
        self._context = tls_alpn_context(challenge.host, challenge.key_authorization)

    def serverConnectionForTLS(self, protocol: object) -> SSL.Connection:
        return SSL.Connection(self._context, None)


@implementer(IHandshakeListener)
class ChallengeConnection(PreambleProtocol):
    """Protocol after the proof: the handshake was all there is to it, whatever comes after is read by nobody."""

    def __init__(self) -> None:
        super().__init__(MOST_SECONDS)

    def handshakeCompleted(self) -> None:
        self.transport.loseConnection()

    def inspect(self) -> None:
        self.received = b""
