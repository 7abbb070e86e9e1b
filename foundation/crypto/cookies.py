"""Cookie headers, read and edited byte for byte (RFC 6265 5.4)."""

import re
from collections.abc import Callable, Iterable
from itertools import takewhile

# Browsers keep fewer than two hundred cookies for a site; this bounds the work that a header of nothing but semicolons makes.
MAX_PAIRS = 1000
HOST_PREFIX = "__Host-"
# What one answer deletes: proxies in front of us have bounds for its head (nginx: 4 KiB).
MAX_EXPIRED = 16

_PLAIN_PATH = re.compile(r"/[A-Za-z0-9._~/-]*")


def parse(headers: Iterable[bytes]) -> list[tuple[bytes, bytes]]:
    """The (name, value) pairs of all Cookie headers, in order; a pair without `=` has an empty name, as browsers send it."""
    pairs = []
    for header in headers:
        for pair in header.split(b";", MAX_PAIRS):
            name, separator, value = pair.partition(b"=")
            pairs.append((name.strip(b" \t"), value.strip(b" \t")) if separator else (b"", pair.strip(b" \t")))
    return pairs[:MAX_PAIRS]


def strip_cookies(headers: Iterable[bytes], is_ours: Callable[[bytes], bool]) -> list[bytes]:
    """The Cookie headers less the pairs whose name is ours; every other pair survives byte for byte, empty headers vanish.

    A pair of ours may follow a comma: some proxies join several Cookie headers by one (Envoy 1.40 for HTTP/1.1).
    """
    kept_headers = []
    for header in headers:
        pairs = header.split(b";")
        kept = [_before_ours(pair, is_ours) for pair in pairs if not is_ours(_name_of(pair))]
        if kept == pairs:
            kept_headers.append(header)
        elif remaining := b";".join(kept).strip(b" \t"):
            kept_headers.append(remaining)
    return kept_headers


def _before_ours(pair: bytes, is_ours: Callable[[bytes], bool]) -> bytes:
    """The pair up to a comma behind which one of ours begins."""
    first, *others = pair.split(b",")
    kept = takewhile(lambda other: not is_ours(_name_of(other)), others)
    return b",".join([first, *kept])


def _name_of(pair: bytes) -> bytes:
    return pair.partition(b"=")[0].strip(b" \t")


# enforcement-point: Identity: Cookies that belong to gate
def is_gate_cookie(name: bytes, cookie_name: str) -> bool:
    """Whether a cookie is ours: the session, its companion, or one of an attempt, a form, the admin.  Case does not matter.

    Every name of the form `<cookie_name>` or `<cookie_name>_...` is ours, with the prefix of host cookies and without.  `cookie_name`
    may have it, too.
    """
    folded, own = name.lower(), cookie_name.lower().encode()
    return any(read == own or read.startswith(own + b"_") for read in (folded, folded.removeprefix(HOST_PREFIX.lower().encode())))


# enforcement-point: Identity: `__Host-` cookie prefix
def host_prefixed_name(name: str, *, secure: bool) -> str:
    """The name under which a cookie is this very host's: no other host can set it, and no other path of this one (RFC 6265bis 4.1.3.2).

    Without `cookie_secure` browsers would drop it, so nothing keeps a sibling of this host from planting one.
    """
    return name if not secure or is_host_prefixed(name) else HOST_PREFIX + name


def is_host_prefixed(name: str) -> bool:
    return name.lower().startswith(HOST_PREFIX.lower())


def expire_all_paths(name: str, host_port: str, path: str, *, secure: bool) -> list[str]:
    """Set-Cookie values that delete the cookies of this name that a browser may have sent with a request for `path`, whoever set them.

    Their domain is this host or a parent of it, their path one that this one is below (RFC 6265 5.1.3, 5.1.4): few places, of which the
    likeliest come first.
    """
    places = [(domain, at) for at in _paths_above(path) for domain in ("", *_domains_of(host_port))]
    return [set_cookie(name, "", max_age=0, secure=secure, domain=domain, path=at) for domain, at in places[:MAX_EXPIRED]]


def _paths_above(path: str) -> list[str]:
    """Paths above one: `/`, and of `/a/b`: `/a`, `/a/`, `/a/b`, `/a/b/`; only those that are plain enough to be written into a header."""
    segments = [segment for segment in path.split("/") if segment][:MAX_EXPIRED]
    below = ["/" + "/".join(segments[:end]) for end in range(1, len(segments) + 1)]
    return [each for each in ("/", *(form for each in below for form in (each, f"{each}/"))) if _PLAIN_PATH.fullmatch(each)]


def _domains_of(host_port: str) -> list[str]:
    """Domains of a host: itself and its parents but for the last label, widest first: `b.example`, `a.b.example`.  None for an address."""
    labels = host_port.partition(":")[0].split(".")
    return [] if labels[-1].isdigit() else [".".join(labels[start:]) for start in range(len(labels) - 2, -1, -1)]


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
