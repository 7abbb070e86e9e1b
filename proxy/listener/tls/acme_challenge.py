"""TLS-ALPN-01 challenge (RFC 8737): responds to the CA that connects to validate a host.

OpenSSL selects a certificate by name before it looks at the protocols that a client offers, so gate reads the ClientHello first.
Other connections are passed to OpenSSL unchanged. A validation never reaches HTTP: it ends with the handshake.
"""

from collections.abc import Callable
from typing import Any

import structlog
from OpenSSL import SSL
from twisted.internet.interfaces import IAddress, IHandshakeListener, IOpenSSLServerConnectionCreator, IProtocol, IProtocolFactory
from twisted.internet.protocol import Factory
from twisted.protocols.tls import TLSMemoryBIOFactory
from zope.interface import implementer

from proxy.listener.connection_preamble import PreambleFactory, PreambleProtocol
from proxy.listener.listener_limits import ListenerLimits
from proxy.listener.tls.acme_state import AcmeChallenge, AcmeState
from proxy.listener.tls.client_hello import ClientHello, ClientHelloParser, UnreadableClientHello
from proxy.listener.tls.self_signed import ACME_TLS, tls_alpn_context

log = structlog.get_logger(__name__)

HANDSHAKE_TIMEOUT_SECONDS = 10.0  # for the CA's handshake
# Record with the fatal alert no_application_protocol (RFC 8446 6.2).
_NO_SUCH_PROTOCOL = b"\x15\x03\x03\x00\x02\x02\x78"


class AcmeChallengeFactory(PreambleFactory):
    """Factory of TLS connections that answers challenges while autocert is enabled."""

    def __init__(self, factory: IProtocolFactory, limits: Callable[[], ListenerLimits], acme_state: AcmeState):
        super().__init__(factory)
        self.limits = limits
        self.acme_state = acme_state

    def buildProtocol(self, addr: IAddress) -> IProtocol | None:
        # The setting may change while the listener runs.
        return ClientHelloReader(self) if self.acme_state.is_enabled else self.factory.buildProtocol(addr)


class ChallengeOnlyFactory(AcmeChallengeFactory):
    """Factory that answers only challenges, behind a proxy that has already selected by protocol."""

    def __init__(self, limits: Callable[[], ListenerLimits], acme_state: AcmeState):
        rejecting = Factory.forProtocol(RejectingProtocol)
        rejecting.noisy = False
        super().__init__(rejecting, limits, acme_state)


class RejectingProtocol(PreambleProtocol):
    """Protocol that rejects clients that also offer other protocols than `acme-tls/1`."""

    def __init__(self) -> None:
        super().__init__(HANDSHAKE_TIMEOUT_SECONDS)

    def inspect(self) -> None:
        self.received = b""
        reject(self.transport)


class ClientHelloReader(PreambleProtocol):
    """Protocol that reads the ClientHello and selects the challenge or TLS."""

    def __init__(self, factory: AcmeChallengeFactory):
        super().__init__(factory.limits().read_timeout)
        self._factory = factory
        self._parser = ClientHelloParser()
        self._inspected_bytes = 0

    def inspect(self) -> None:
        new, self._inspected_bytes = self.received[self._inspected_bytes :], len(self.received)
        try:
            hello = self._parser.feed(new)
        except UnreadableClientHello:
            hello = ClientHello(None, ())
        if hello is None:
            return
        if hello.protocols == (ACME_TLS,):
            self._validate(hello)
        else:
            self.switch_to(self._factory.factory, self.received)

    def _validate(self, hello: ClientHello) -> None:
        host = (hello.server_name or b"").decode("ascii", "replace").lower()
        challenge = self._factory.acme_state.pending_challenge(host)
        if challenge is None or challenge.kind != "tls-alpn-01":
            self._cancel_timer()
            reject(self.transport)
        else:
            log.info("responding to ACME challenge", host=host, challenge=challenge.kind)
            challenge_factory = Factory.forProtocol(ChallengeProtocol)
            challenge_factory.noisy = False
            self.switch_to(TLSMemoryBIOFactory(_ChallengeContextFactory(challenge), False, challenge_factory), self.received)


def reject(transport: Any) -> None:
    """Reject a handshake with a TLS alert."""
    transport.write(_NO_SUCH_PROTOCOL)
    transport.loseConnection()


@implementer(IOpenSSLServerConnectionCreator)
class _ChallengeContextFactory:
    def __init__(self, challenge: AcmeChallenge):
        self._context = tls_alpn_context(challenge.host, challenge.key_authorization)

    def serverConnectionForTLS(self, protocol: object) -> SSL.Connection:
        return SSL.Connection(self._context, None)


@implementer(IHandshakeListener)
class ChallengeProtocol(PreambleProtocol):
    """Protocol above the challenge's TLS: closes after the handshake and drops all input."""

    def __init__(self) -> None:
        super().__init__(HANDSHAKE_TIMEOUT_SECONDS)

    def handshakeCompleted(self) -> None:
        self.transport.loseConnection()

    def inspect(self) -> None:
        self.received = b""
