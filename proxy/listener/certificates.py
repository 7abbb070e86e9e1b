"""Which certificate does a TLS client get, by the name it asks for?"""

from collections.abc import Sequence
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from OpenSSL import SSL
from twisted.internet.interfaces import IOpenSSLServerConnectionCreator
from zope.interface import implementer

from gateproject.config.types import CertificatePair
from gateproject.errors import ConfigError, Problem

# TLS 1.2; the three suites of TLS 1.3 are all good and not in this list.
_CIPHERS = b"ECDHE+AESGCM:ECDHE+CHACHA20:!aNULL"
_OPTIONS = SSL.OP_NO_COMPRESSION | SSL.OP_NO_RENEGOTIATION | SSL.OP_CIPHER_SERVER_PREFERENCE


@implementer(IOpenSSLServerConnectionCreator)
class Certificates:
    """The TLS contexts by host name: the exact name, else a wildcard for one label, else the first pair."""

    def __init__(self, pairs: Sequence[CertificatePair]):
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
        return SSL.Connection(self._first, None)

    def context_for(self, server_name: str) -> SSL.Context:
        name = server_name.lower().removesuffix(".")
        wildcard = "*." + name.partition(".")[2]
        return self._by_name.get(name) or self._by_name.get(wildcard) or self._first

    def _choose(self, connection: SSL.Connection) -> None:
        server_name = connection.get_servername()
        if server_name is not None:
            connection.set_context(self.context_for(server_name.decode("ascii", "replace")))


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
