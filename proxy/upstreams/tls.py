"""How a route verifies its upstream: one client-side TLS context for each distinct set of rules."""

import ssl
from functools import lru_cache

from gateproject.config.route import Route
from gateproject.errors import ConfigError, Problem


def client_context(route: Route) -> ssl.SSLContext:
    """Routes with the same rules share a context, and with it the pool of connections."""
    return _context(route.tls_skip_verify, route.tls_custom_ca)


@lru_cache(maxsize=256)
def _context(skip_verify: bool, custom_ca: bytes | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    context.hostname_checks_common_name = False  # RFC 9110 4.3.4: only the subject alternative names count
    if skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif custom_ca is not None:
        _trust_only(context, custom_ca)
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    return context


def _trust_only(context: ssl.SSLContext, custom_ca: bytes) -> None:
    """These replace the system's store and never extend it.  Raises ConfigError for what is not PEM."""
    try:
        context.load_verify_locations(cadata=custom_ca.decode("ascii"))
    except (UnicodeDecodeError, ssl.SSLError) as error:
        raise ConfigError([Problem("tls_custom_ca", "holds no certificate in PEM form")]) from error
