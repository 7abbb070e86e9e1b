"""TLS of our own calls: which authorities are trusted, and what their certificates must be like; the same with each Python."""

import functools
import ssl

# Python 3.13 has begun to ask for these by default.  The first refuses certificates for what companies' own authorities often leave out,
# such as an identifier of the issuer's key; by the second any certificate of a file is an authority, which one that was issued is not.
_PY313_FLAGS = ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN


def verifying_context(authorities_file: str | None = None) -> ssl.SSLContext:
    """New context with the system's authorities, or with those of a file (PEM) in their place.  OSError, or ssl.SSLError, of the file."""
    context = ssl.create_default_context(cafile=authorities_file)  # noqa: TID251 - the one place
    context.verify_flags &= ~_PY313_FLAGS
    return context


@functools.cache
def client_context(certificate_authority: bytes | None) -> ssl.SSLContext:
    """Context with the system's authorities, and `certificate_authority` (PEM) beside them where it is set."""
    context = verifying_context()
    if certificate_authority:
        context.load_verify_locations(cadata=certificate_authority.decode("ascii"))
    return context
