"""Selection of the server certificate by server name (SNI), and of the hosts that request a client certificate."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from OpenSSL import SSL
from twisted.internet.interfaces import IOpenSSLServerConnectionCreator
from zope.interface import implementer

from config.fields.pem import dns_names
from foundation.errors import ConfigError, Problem
from foundation.values import CertificatePair
from proxy.listener.tls.acme_state import AcmeState
from proxy.listener.tls.self_signed import placeholder_pair

# For TLS 1.2; the TLS 1.3 suites are not configured here.
_CIPHERS = b"ECDHE+AESGCM:ECDHE+CHACHA20:!aNULL"
# X25519MLKEM768 first, if OpenSSL supports it, so that recorded traffic stays confidential against future quantum computers.
_GROUPS = (b"X25519MLKEM768:X25519:P-256:P-384", b"X25519:P-256:P-384")
_OPTIONS = SSL.OP_NO_COMPRESSION | SSL.OP_NO_RENEGOTIATION | SSL.OP_CIPHER_SERVER_PREFERENCE


# Returns whether clients that send this server name (None: none) are asked for a certificate.
WantsClientCertificate = Callable[[str | None], bool]


@implementer(IOpenSSLServerConnectionCreator)
class Certificates:
    """TLS contexts by host name: the exact name, configured or issued, else a wildcard for one label, else the default.

    The default is the first configured pair, else the first issued certificate, else a self-signed placeholder.
    `wants_certificate` is called at each handshake, so that it can change with the configuration.
    """

    def __init__(
        self,
        pairs: Sequence[CertificatePair],
        wants_certificate: WantsClientCertificate = lambda server_name: False,
        acme_state: AcmeState | None = None,
        min_version: str = "1.2",
    ):
        self.pairs = tuple(pairs)
        self.min_version = min_version
        self._wants_certificate = wants_certificate
        self._acme_state = acme_state or AcmeState()
        self._by_name: dict[str, SSL.Context] = {}
        contexts = []
        for pair in pairs:
            loaded = load_context(pair, self._acme_state)
            contexts.append(loaded.context)
            for name in loaded.names:
                self._by_name.setdefault(name, loaded.context)
        # Each connection starts with this context, because OpenSSL calls its servername callback even after another one is swapped in.
        self._base = contexts[0] if contexts else load_context(placeholder_pair(), self._acme_state).context
        self._base.set_tlsext_servername_callback(self._on_servername)

    def serverConnectionForTLS(self, protocol: object) -> SSL.Connection:
        connection = SSL.Connection(self._base, None)
        if self.min_version == "1.3":  # on the connection, because it outlives a context that is swapped in
            connection.set_options(SSL.OP_NO_TLSv1_2)
        if (default := self._default()) is not self._base:
            connection.set_context(default)
        if self._wants_certificate(None):
            # A resumed connection carries a certificate without proof of possession, possibly presented to another host, and without
            # its intermediates.
            connection.set_options(SSL.OP_NO_TICKET)
        # Without SNI the callback below never runs.
        self._request_client_certificate(connection, None)
        return connection

    def context_for(self, server_name: str) -> SSL.Context:
        name = server_name.lower().removesuffix(".")
        wildcard = "*." + name.partition(".")[2]
        return self._by_name.get(name) or self._acme_state.contexts.get(name) or self._by_name.get(wildcard) or self._default()

    def _default(self) -> SSL.Context:
        return self._base if self.pairs else self._acme_state.default_context or self._base

    def _on_servername(self, connection: SSL.Connection) -> None:
        server_name = connection.get_servername()
        if server_name is not None:
            name = server_name.decode("ascii", "replace")
            connection.set_context(self.context_for(name))
            self._request_client_certificate(connection, name)

    def _request_client_certificate(self, connection: SSL.Connection, server_name: str | None) -> None:
        """Request a client certificate on the connection, because OpenSSL ignores the verify mode of a context that is swapped in.

        The handshake accepts any certificate. The route decides which CA it requires, and an error page explains more than a failed
        handshake.
        """
        if self._wants_certificate(server_name):
            connection.set_verify(SSL.VERIFY_PEER, _accept_any)
        else:
            connection.set_verify(SSL.VERIFY_NONE, _accept_any)


@implementer(IOpenSSLServerConnectionCreator)
class ReloadableCertificates:
    """Certificates that a reload can replace. A handshake uses those that were in force when it started."""

    def __init__(self, get_current: Callable[[], Certificates]):
        self._get_current = get_current

    def serverConnectionForTLS(self, protocol: object) -> SSL.Connection:
        return self._get_current().serverConnectionForTLS(protocol)


def _accept_any(connection: SSL.Connection, certificate: object, error: int, depth: int, is_valid: int) -> bool:
    return True


def tls_info(connection: SSL.Connection) -> dict[str, Any]:
    """Return the server name (SNI) and the client certificate chain (DER, leaf first) of a connection; cached per connection."""
    cached = connection.get_app_data()
    if isinstance(cached, dict):
        return cached
    server_name = connection.get_servername()
    leaf = connection.get_peer_certificate(as_cryptography=True)
    chain = [] if leaf is None else [leaf, *(connection.get_peer_cert_chain(as_cryptography=True) or ())]
    presented = dict.fromkeys(each.public_bytes(Encoding.DER) for each in chain)
    facts = {"server_name": None if server_name is None else server_name.decode("ascii", "replace"), "chain": tuple(presented)}
    connection.set_app_data(facts)
    return facts


class LoadedContext(NamedTuple):
    """TLS context, and the host names of its certificate."""

    context: SSL.Context
    names: list[str]


def load_context(pair: CertificatePair, acme_state: AcmeState) -> LoadedContext:
    """Load the TLS context of a pair. At each handshake it staples the current OCSP response, if any.

    Raises ConfigError, with the name of the pair's source, if the pair cannot be used.
    """
    try:
        chain = x509.load_pem_x509_certificates(pair.certificate)
        key = load_pem_private_key(pair.key.reveal(), password=None)
        context = _context()
        context.use_certificate(chain[0])
        for intermediate in chain[1:]:
            context.add_extra_chain_cert(intermediate)
        context.use_privatekey(key)  # type: ignore[arg-type]  # the loader has rejected other key types
    except (ValueError, TypeError, SSL.Error) as error:
        problem = "invalid certificate or key: they must be PEM and match"
        raise ConfigError([Problem(pair.source, problem)]) from error
    fingerprint = chain[0].fingerprint(hashes.SHA256())
    # On every context, because a context that is swapped in uses its own callback.
    context.set_ocsp_server_callback(lambda connection, data: acme_state.staple(fingerprint))
    return LoadedContext(context, dns_names(chain[0]))


def _context() -> SSL.Context:
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    context.set_min_proto_version(SSL.TLS1_2_VERSION)
    context.set_options(_OPTIONS)
    context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
    context.set_session_id(b"gate")  # without one OpenSSL fails if a client that resumes is asked for a certificate
    # Idle connections keep no buffers, which are 34 KiB each.
    context.set_mode(SSL.MODE_RELEASE_BUFFERS)
    context.set_cipher_list(_CIPHERS)
    _set_groups(context)
    context.set_alpn_select_callback(_select_protocol)
    return context


def _set_groups(context: SSL.Context) -> None:
    """Set the key exchange groups, because OpenSSL's defaults include X448 and P-521. pyOpenSSL (26.4) has no method for it."""
    if not any(SSL._lib.SSL_CTX_set1_curves_list(context._context, groups) == 1 for groups in _GROUPS):
        raise RuntimeError("OpenSSL supports none of X25519, P-256 and P-384")
    SSL._lib.ERR_clear_error()  # left by an unknown group


def _select_protocol(connection: SSL.Connection, offered: list[bytes]) -> Any:
    """Select HTTP/1.1. A client that does not offer it continues without ALPN."""
    return b"http/1.1" if b"http/1.1" in offered else SSL.NO_OVERLAPPING_PROTOCOLS
