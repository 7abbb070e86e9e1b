"""The Cookie header, read and edited byte for byte (RFC 6265 5.4)."""

from collections.abc import Callable, Iterable

# Browsers keep fewer than two hundred cookies for a site; this bounds the work that a header of nothing but semicolons makes.
MAX_PAIRS = 1000


def parse(headers: Iterable[bytes]) -> list[tuple[bytes, bytes]]:
    """The (name, value) pairs of all Cookie headers, in order; a pair without `=` has an empty name, as browsers send it."""
    pairs = []
    for header in headers:
        for pair in header.split(b";", MAX_PAIRS):
            name, separator, value = pair.partition(b"=")
            pairs.append((name.strip(b" \t"), value.strip(b" \t")) if separator else (b"", pair.strip(b" \t")))
    return pairs[:MAX_PAIRS]


def without(headers: Iterable[bytes], is_ours: Callable[[bytes], bool]) -> list[bytes]:
    """The Cookie headers less the pairs whose name is ours; every other pair survives byte for byte, empty headers vanish."""
    kept_headers = []
    for header in headers:
        pairs = header.split(b";")
        kept = [pair for pair in pairs if not is_ours(pair.partition(b"=")[0].strip(b" \t"))]
        if len(kept) == len(pairs):
            kept_headers.append(header)
        elif remaining := b";".join(kept).strip(b" \t"):
            kept_headers.append(remaining)
    return kept_headers


def is_ours(name: bytes, cookie_name: str) -> bool:
    """Is this one of our cookies: the session, a chunk of it, or one of its companions?  Case does not matter.

    Every name of the form `<cookie_name>` or `<cookie_name>_...` is ours: session chunks are numbered, companions are named, and
    some have the prefix of cookies that only the host itself can set.  `cookie_name` may have it, too.
    """
    folded, own = name.lower(), cookie_name.lower().encode()
    return any(read == own or read.startswith(own + b"_") for read in (folded, folded.removeprefix(b"__host-")))


def set_cookie(name: str, value: str, *, max_age: int, secure: bool, http_only: bool = True, domain: str = "", path: str = "/") -> str:
    """A Set-Cookie value.  SameSite=Lax always: sign-in returns to us by a top-level navigation from the provider."""
    parts = [f"{name}={value}", f"Path={path}", f"Max-Age={max_age}", "SameSite=Lax"]
    if domain:
        parts.append(f"Domain={domain}")
    if secure:
        parts.append("Secure")
    if http_only:
        parts.append("HttpOnly")
    return "; ".join(parts)
