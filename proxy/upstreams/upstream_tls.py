"""TLS contexts for upstreams: certificate verification and client certificate, one context for each distinct set of settings."""

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from config.routes.route import Route
from foundation.errors import ConfigError, Problem


def client_context(route: Route, protocol: str = "http/1.1") -> ssl.SSLContext:
    """Return a route's TLS context. Routes with the same settings share it, and thus pooled connections. ALPN offers `protocol`.

    Raises ConfigError if a certificate or key is invalid.
    """
    return _context(route.tls_skip_verify, route.tls_custom_ca, route.tls_client_cert, route.tls_client_key, protocol)


@lru_cache(maxsize=256)
def _context(skip_verify: bool, custom_ca: bytes | None, certificate: bytes | None, key: bytes | None, protocol: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols([protocol])
    context.hostname_checks_common_name = False  # RFC 9110 4.3.4: only the subject alternative names count
    if skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif custom_ca is not None:
        _load_ca(context, custom_ca)
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if certificate is not None and key is not None:
        _load_client_certificate(context, certificate, bytes(key))
    return context


def _load_ca(context: ssl.SSLContext, custom_ca: bytes) -> None:
    """Trust only these certificates instead of the system's. Raises ConfigError if they are not PEM."""
    try:
        context.load_verify_locations(cadata=custom_ca.decode("ascii"))
    except (UnicodeDecodeError, ssl.SSLError) as error:
        raise ConfigError([Problem("tls_custom_ca", "contains no certificate in PEM form")]) from error


def _load_client_certificate(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    try:
        with _temporary_path(certificate + b"\n" + key) as path:
            # Without a callback, OpenSSL prompts on the terminal for the password of an encrypted key.
            context.load_cert_chain(path, password=lambda: b"")
    except (ssl.SSLError, OSError) as error:
        raise ConfigError([Problem("tls_client_cert", "or tls_client_key is invalid: they must be PEM and match")]) from error


@contextmanager
def _temporary_path(content: bytes) -> Iterator[str]:
    """Return the path of a temporary file, because the ssl module loads certificates from files only. On Linux it is in memory."""
    if hasattr(os, "memfd_create"):
        with open(os.memfd_create("certificate"), "wb") as file:
            file.write(content)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
    else:
        with tempfile.NamedTemporaryFile() as temporary:  # mode 0600
            temporary.write(content)
            temporary.flush()
            yield temporary.name
