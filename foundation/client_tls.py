"""TLS of our own calls: which authorities are trusted."""

import functools
import ssl


@functools.cache
def client_context(certificate_authority: bytes | None) -> ssl.SSLContext:
    """Context with the system's authorities, and `certificate_authority` (PEM) beside them where it is set."""
    context = ssl.create_default_context()
    if certificate_authority:
        context.load_verify_locations(cadata=certificate_authority.decode("ascii"))
    return context
