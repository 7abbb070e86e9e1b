"""Server certificates: which one a TLS client gets, by the name it asks for, and whether it is asked for one of its own."""

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

# TLS 1.2; the three suites of TLS 1.3 are all good and not in this list.
_CIPHERS = b"ECDHE+AESGCM:ECDHE+CHACHA20:!aNULL"
# The hybrid of X25519 and ML-KEM first, where the OpenSSL has it: what is recorded today is not read by a quantum computer later.
_GROUPS = (b"X25519MLKEM768:X25519:P-256:P-384", b"X25519:P-256:P-384")
_OPTIONS = SSL.OP_NO_COMPRESSION | SSL.OP_NO_RENEGOTIATION | SSL.OP_CIPHER_SERVER_PREFERENCE


# Does a client that asks for this name (None: for none) get asked for a certificate?
WantsClientCertificate = Callable[[str | None], bool]


@implementer(IOpenSSLServerConnectionCreator)
class Certificates:
    """TLS contexts by host name: the exact name, configured or obtained, else a wildcard for one label, else the first pair.

    Where no pair is configured the first is the first that was obtained, and before there is one, a certificate that nobody vouches for.
    `wants_certificate` is asked at each handshake, so that it may change with the configuration.
    """

    def __init__(
        self,
        pairs: Sequence[CertificatePair],
        wants_certificate: WantsClientCertificate = lambda server_name: False,
        obtained: AcmeState | None = None,
        min_version: str = "1.2",
    ):
        self.pairs = tuple(pairs)
        self.min_version = min_version
        self._wants_certificate = wants_certificate
        self._obtained = obtained or AcmeState()
        self._by_name: dict[str, SSL.Context] = {}
        contexts = []
        for pair in pairs:
            ready = load_context(pair, self._obtained)
            contexts.append(ready.context)
            for name in ready.names:
                self._by_name.setdefault(name, ready.context)
        # Each connection begins with this one: where another is swapped in, OpenSSL still asks the callback of the first.
        self._base = contexts[0] if contexts else load_context(placeholder_pair(), self._obtained).context
        self._base.set_tlsext_servername_callback(self._choose)

    def serverConnectionForTLS(self, protocol: object) -> SSL.Connection:
        connection = SSL.Connection(self._base, None)
        if self.min_version == "1.3":  # of the connection, which keeps it whatever context is swapped in
            connection.set_options(SSL.OP_NO_TLSv1_2)
        if (first := self._first()) is not self._base:
            connection.set_context(first)
        if self._wants_certificate(None):
            # A resumed connection would bring along a certificate that nobody has proved to hold in it, perhaps shown to another
            # host, and without the intermediates that came with it.
            connection.set_options(SSL.OP_NO_TICKET)
        # For clients that name no host the callback below never runs.
        self._ask(connection, None)
        return connection

    def context_for(self, server_name: str) -> SSL.Context:
        name = server_name.lower().removesuffix(".")
        wildcard = "*." + name.partition(".")[2]
        return self._by_name.get(name) or self._obtained.contexts.get(name) or self._by_name.get(wildcard) or self._first()

    def _first(self) -> SSL.Context:
        return self._base if self.pairs else self._obtained.default_context or self._base

    def _choose(self, connection: SSL.Connection) -> None:
        server_name = connection.get_servername()
        if server_name is not None:
            name = server_name.decode("ascii", "replace")
            connection.set_context(self.context_for(name))
            self._ask(connection, name)

    def _ask(self, connection: SSL.Connection, server_name: str | None) -> None:
        """Set on the connection: what a context says of verification is not taken over when it is swapped in (OpenSSL).

        The handshake succeeds whatever is shown: which authority a certificate must come from is the route's to say, and a page
        that explains is better than a broken connection.
        """
        if self._wants_certificate(server_name):
            connection.set_verify(SSL.VERIFY_PEER, _accept)
        else:
            connection.set_verify(SSL.VERIFY_NONE, _accept)


@implementer(IOpenSSLServerConnectionCreator)
class ReloadableCertificates:
    """TLS certificates of the moment: each handshake begins with them, and ends with those it began with."""

    def __init__(self, current: Callable[[], Certificates]):
        self._current = current

    def serverConnectionForTLS(self, protocol: object) -> SSL.Connection:
        return self._current().serverConnectionForTLS(protocol)


def _accept(connection: SSL.Connection, certificate: object, error: int, depth: int, is_good: int) -> bool:
    return True


def tls_info(connection: SSL.Connection) -> dict[str, Any]:
    """Server name (SNI) and client certificates of a connection, DER, its own first; found out once a connection."""
    known = connection.get_app_data()
    if isinstance(known, dict):
        return known
    server_name = connection.get_servername()
    own = connection.get_peer_certificate(as_cryptography=True)
    chain = [] if own is None else [own, *(connection.get_peer_cert_chain(as_cryptography=True) or ())]
    shown = dict.fromkeys(each.public_bytes(Encoding.DER) for each in chain)
    facts = {"server_name": None if server_name is None else server_name.decode("ascii", "replace"), "chain": tuple(shown)}
    connection.set_app_data(facts)
    return facts


class LoadedContext(NamedTuple):
    context: SSL.Context
    names: list[str]


def load_context(pair: CertificatePair, obtained: AcmeState) -> LoadedContext:
    """TLS context of a pair; ConfigError, in the name of its source, where it can't be used.  It staples what there is at a handshake."""
    try:
        chain = x509.load_pem_x509_certificates(pair.certificate)
        key = load_pem_private_key(pair.key.reveal(), password=None)
        context = _context()
        context.use_certificate(chain[0])
        for intermediate in chain[1:]:
            context.add_extra_chain_cert(intermediate)
        context.use_privatekey(key)  # type: ignore[arg-type]  # the loader has refused other kinds of keys
    except (ValueError, TypeError, SSL.Error) as error:
        problem = "invalid certificate or key: they must be PEM and match"
        raise ConfigError([Problem(pair.source, problem)]) from error
    fingerprint = chain[0].fingerprint(hashes.SHA256())
    # On every context: one that is swapped in staples for itself only.
    context.set_ocsp_server_callback(lambda connection, data: obtained.staple(fingerprint))
    return LoadedContext(context, dns_names(chain[0]))


def _context() -> SSL.Context:
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    context.set_min_proto_version(SSL.TLS1_2_VERSION)
    context.set_options(_OPTIONS)
    context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
    context.set_session_id(b"gate")  # without one OpenSSL fails where a client offers to resume and is asked for a certificate
    # An idle connection keeps no buffers: 34 KiB each, and most connections are idle.
    context.set_mode(SSL.MODE_RELEASE_BUFFERS)
    context.set_cipher_list(_CIPHERS)
    _set_groups(context)
    context.set_alpn_select_callback(_select_protocol)
    return context


def _set_groups(context: SSL.Context) -> None:
    """OpenSSL's own defaults have X448 and P-521 as well.  pyOpenSSL (26.4) has no method for it, its library has."""
    if not any(SSL._lib.SSL_CTX_set1_curves_list(context._context, groups) == 1 for groups in _GROUPS):
        raise RuntimeError("OpenSSL supports none of X25519, P-256 and P-384")
    SSL._lib.ERR_clear_error()  # of a group that it does not know


def _select_protocol(connection: SSL.Connection, offered: list[bytes]) -> Any:
    """HTTP/1.1 only; a client that offers something else only is left to find out by itself."""
    return b"http/1.1" if b"http/1.1" in offered else SSL.NO_OVERLAPPING_PROTOCOLS
