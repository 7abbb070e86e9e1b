"""Which certificate does a TLS client get, by the name it asks for, and is it asked for one of its own?"""

from collections.abc import Callable, Sequence
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from OpenSSL import SSL
from twisted.internet.interfaces import IOpenSSLServerConnectionCreator
from zope.interface import implementer

from gateproject.config.types import CertificatePair
from gateproject.errors import ConfigError, Problem

# TLS 1.2; the three suites of TLS 1.3 are all good and not in this list.
_CIPHERS = b"ECDHE+AESGCM:ECDHE+CHACHA20:!aNULL"
_OPTIONS = SSL.OP_NO_COMPRESSION | SSL.OP_NO_RENEGOTIATION | SSL.OP_CIPHER_SERVER_PREFERENCE


# Does a client that asks for this name (None: for none) get asked for a certificate?
Wants = Callable[[str | None], bool]


@implementer(IOpenSSLServerConnectionCreator)
class Certificates:
    """The TLS contexts by host name: the exact name, else a wildcard for one label, else the first pair.

    `wants_certificate` is asked at each handshake, so that it may change with the configuration.
    """

    def __init__(self, pairs: Sequence[CertificatePair], wants_certificate: Wants = lambda server_name: False):
        self.pairs = tuple(pairs)
        self._wants_certificate = wants_certificate
        self._by_name: dict[str, SSL.Context] = {}
        contexts = []
        for pair in pairs:
            context, names = _load(pair)
            contexts.append(context)
            for name in names:
                self._by_name.setdefault(name, context)
        self._first = contexts[0]
        self._first.set_tlsext_servername_callback(self._choose)

    def serverConnectionForTLS(self, protocol: object) -> SSL.Connection:
        connection = SSL.Connection(self._first, None)
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
        return self._by_name.get(name) or self._by_name.get(wildcard) or self._first

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
class CurrentCertificates:
    """Each handshake begins with the certificates of that moment; one that is under way ends with those it began with."""

    def __init__(self, current: Callable[[], Certificates]):
        self._current = current

    def serverConnectionForTLS(self, protocol: object) -> SSL.Connection:
        return self._current().serverConnectionForTLS(protocol)


def _accept(connection: SSL.Connection, certificate: object, error: int, depth: int, is_good: int) -> bool:
    return True


def tls_facts(connection: SSL.Connection) -> dict[str, Any]:
    """The name that the client asked for, and the certificates that it showed, DER, its own first; found out once a connection."""
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


def _load(pair: CertificatePair) -> tuple[SSL.Context, list[str]]:
    try:
        chain = x509.load_pem_x509_certificates(pair.certificate)
        key = load_pem_private_key(pair.key.reveal(), password=None)
        context = _context()
        context.use_certificate(chain[0])
        for intermediate in chain[1:]:
            context.add_extra_chain_cert(intermediate)
        context.use_privatekey(key)  # type: ignore[arg-type]  # the loader has refused other kinds of keys
    except (ValueError, TypeError, SSL.Error) as error:
        problem = "the certificate and its key can't be used: they must be PEM and belong together"
        raise ConfigError([Problem(pair.source, problem)]) from error
    return context, _names(chain[0])


def _context() -> SSL.Context:
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    context.set_min_proto_version(SSL.TLS1_2_VERSION)
    context.set_options(_OPTIONS)
    context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
    context.set_session_id(b"gate")  # without one OpenSSL fails where a client offers to resume and is asked for a certificate
    # An idle connection keeps no buffers: 34 KiB each, and most connections are idle.
    context.set_mode(SSL.MODE_RELEASE_BUFFERS)
    context.set_cipher_list(_CIPHERS)
    context.set_alpn_select_callback(_select_protocol)
    return context


def _select_protocol(connection: SSL.Connection, offered: list[bytes]) -> Any:
    """HTTP/1.1 only; a client that offers something else only is left to find out by itself."""
    return b"http/1.1" if b"http/1.1" in offered else SSL.NO_OVERLAPPING_PROTOCOLS


def _names(certificate: x509.Certificate) -> list[str]:
    try:
        alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return []
    return [name.lower() for name in alternatives.value.get_values_for_type(x509.DNSName)]
