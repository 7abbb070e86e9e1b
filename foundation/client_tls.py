"""TLS contexts of gate's outgoing connections, with the same verification flags on every Python version."""

import functools
import ssl

# Defaults since Python 3.13. The first rejects certificates that lack, for example, an authority key identifier, as those of company CAs
# often do. The second makes every certificate of a CA file a trust anchor, even a leaf certificate.
_PY313_FLAGS = ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN


def verifying_context(authorities_file: str | None = None) -> ssl.SSLContext:
    """Return a new context that trusts the system's CAs, or only those of a PEM file. Raise OSError or ssl.SSLError for the file."""
    context = ssl.create_default_context(cafile=authorities_file)  # noqa: TID251 - the only caller
    context.verify_flags &= ~_PY313_FLAGS
    return context


@functools.cache
def client_context(certificate_authority: bytes | None) -> ssl.SSLContext:
    """Return a context that trusts the system's CAs and, if set, `certificate_authority` (PEM)."""
    context = verifying_context()
    if certificate_authority:
        context.load_verify_locations(cadata=certificate_authority.decode("ascii"))
    return context
