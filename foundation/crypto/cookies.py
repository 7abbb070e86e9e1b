"""Cookie headers, parsed and edited byte for byte (RFC 6265 5.4)."""

import re
from collections.abc import Callable, Iterable
from itertools import takewhile

# Browsers store fewer than 200 cookies for a site; the limit bounds the work for a header of semicolons only.
MAX_PAIRS = 1000
HOST_PREFIX = "__Host-"
# Deletions in one response, because proxies in front of gate limit response headers (nginx: 4 KiB).
MAX_EXPIRED = 16

_PLAIN_PATH = re.compile(r"/[A-Za-z0-9._~/-]*")


def parse(headers: Iterable[bytes]) -> list[tuple[bytes, bytes]]:
    """Return the (name, value) pairs of all Cookie headers in order; a pair without `=` has an empty name, as in browsers."""
    pairs = []
    for header in headers:
        for pair in header.split(b";", MAX_PAIRS):
            name, separator, value = pair.partition(b"=")
            pairs.append((name.strip(b" \t"), value.strip(b" \t")) if separator else (b"", pair.strip(b" \t")))
    return pairs[:MAX_PAIRS]


def strip_cookies(headers: Iterable[bytes], is_removed: Callable[[bytes], bool]) -> list[bytes]:
    """Return the Cookie headers without gate's cookies; other pairs stay byte for byte, and empty headers are dropped.

    A pair may follow a comma, because some proxies join several Cookie headers with one (Envoy 1.40 for HTTP/1.1).
    """
    stripped_headers = []
    for header in headers:
        pairs = header.split(b";")
        remaining_pairs = [_before_gate_cookie(pair, is_removed) for pair in pairs if not is_removed(_pair_name(pair))]
        if remaining_pairs == pairs:
            stripped_headers.append(header)
        elif remaining := b";".join(remaining_pairs).strip(b" \t"):
            stripped_headers.append(remaining)
    return stripped_headers


def _before_gate_cookie(pair: bytes, is_removed: Callable[[bytes], bool]) -> bytes:
    """Return the pair up to the first comma that precedes one of gate's cookies."""
    first, *others = pair.split(b",")
    remaining_pairs = takewhile(lambda other: not is_removed(_pair_name(other)), others)
    return b",".join([first, *remaining_pairs])


def _pair_name(pair: bytes) -> bytes:
    return pair.partition(b"=")[0].strip(b" \t")


# enforcement-point: Identity: Cookies that belong to gate
def is_gate_cookie(name: bytes, cookie_name: str) -> bool:
    """Return whether a cookie is gate's: of the session, its binding, a sign-in attempt, a saved form, the admin.

    Matches `<cookie_name>` and `<cookie_name>_...`, with and without the `__Host-` prefix, case-insensitively. `cookie_name` may have
    the prefix too.
    """
    folded, gate_name = name.lower(), cookie_name.lower().encode()
    return any(
        each == gate_name or each.startswith(gate_name + b"_") for each in (folded, folded.removeprefix(HOST_PREFIX.lower().encode()))
    )


# enforcement-point: Identity: `__Host-` cookie prefix
def host_prefixed_name(name: str, *, secure: bool) -> str:
    """Return the cookie name with the `__Host-` prefix, which only this host can set, for all its paths (RFC 6265bis 4.1.3.2).

    Without `cookie_secure` the name is unchanged, because browsers would drop the cookie. Then a sibling host can plant one.
    """
    return name if not secure or is_host_prefixed(name) else HOST_PREFIX + name


def is_host_prefixed(name: str) -> bool:
    return name.lower().startswith(HOST_PREFIX.lower())


def expire_all_paths(name: str, host_port: str, path: str, *, secure: bool) -> list[str]:
    """Return Set-Cookie values that delete all cookies of this name that browsers send with a request for `path`.

    Their domain is this host or a parent domain, and their path a prefix of `path` (RFC 6265 5.1.3, 5.1.4). The most likely ones come
    first; at most `MAX_EXPIRED` are returned.
    """
    scopes = [(domain, cookie_path) for cookie_path in _matching_paths(path) for domain in ("", *_parent_domains(host_port))]
    return [set_cookie(name, "", max_age=0, secure=secure, domain=domain, path=cookie_path) for domain, cookie_path in scopes[:MAX_EXPIRED]]


def _matching_paths(path: str) -> list[str]:
    """Return the cookie paths that match a path, for `/a/b`: `/`, `/a`, `/a/`, `/a/b`, `/a/b/`. Paths unsafe in a header are skipped."""
    segments = [segment for segment in path.split("/") if segment][:MAX_EXPIRED]
    below = ["/" + "/".join(segments[:end]) for end in range(1, len(segments) + 1)]
    return [each for each in ("/", *(form for each in below for form in (each, f"{each}/"))) if _PLAIN_PATH.fullmatch(each)]


def _parent_domains(host_port: str) -> list[str]:
    """Return the host and its parent domains, except the top-level one, widest first. An IP address has none."""
    labels = host_port.partition(":")[0].split(".")
    return [] if labels[-1].isdigit() else [".".join(labels[start:]) for start in range(len(labels) - 2, -1, -1)]


def set_cookie(name: str, value: str, *, max_age: int, secure: bool, http_only: bool = True, domain: str = "", path: str = "/") -> str:
    """Return a Set-Cookie value. SameSite is always Lax, because sign-in returns from the provider by a top-level navigation."""
    parts = [f"{name}={value}", f"Path={path}", f"Max-Age={max_age}", "SameSite=Lax"]
    if domain:
        parts.append(f"Domain={domain}")
    if secure:
        parts.append("Secure")
    if http_only:
        parts.append("HttpOnly")
    return "; ".join(parts)
