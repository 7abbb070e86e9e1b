"""Canonical path and host of a request.  Ambiguous ones are rejected."""

import ipaddress
import re
from urllib.parse import quote

from authorize.policy.paths.escapes import decoding, encode_private, octets
from foundation.bounded_cache import MemoCache
from foundation.errors import BadRequest
from foundation.web.message import Message

UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_CANONICAL = decoding(UNRESERVED)

# Nearly every path has only these characters, and no segment that starts with a dot.  Such a path is canonical.
_PLAIN = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!$&'()*+,=:@/"
_ALLOWED_RAW = bytes(set(range(0x21, 0x7F)) - set(b"#?\\"))
_NEVER_ESCAPED = bytes([*range(0x20), *b"\\\x7f"])
_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_ESCAPED_AGAIN = re.compile(r"%(?:25)++(?=2[3EF]|3[BF]|5C)")
# Characters after which some server starts a new segment ("/") or ends the path if it decodes first ("?").
_EQUIVALENT_SEPARATORS = (("%2E", "."), (";", "/"), ("%2F", "/"), ("%3B", "/"), ("%5C", "/"), ("%3F", "?"), ("%23", "?"))
_TRAVERSALS = ("/./", "/../", "/.?", "/..?")

_HOST = re.compile(rb"(\[[0-9a-f:.]+\]|[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?)(?::([1-9][0-9]{0,4}))?")
_MAX_HOST_LENGTH = 253
_MAX_LABEL_LENGTH = 63


# enforcement-point: Requests: Path normalization
def canonical_path(raw: bytes) -> str:
    """Return the path (without query) as percent-encoded ASCII: the form that is matched, authorized and forwarded.

    RFC 3986 6.2.2: unreserved escapes are decoded, other escapes are in upper-case hex, and dot segments are resolved (5.2.4, never above
    the root).  Duplicate slashes and `%2F` remain.

    Raises BadRequest for controls, spaces, backslashes, non-ASCII bytes, invalid escapes, escapes that are not UTF-8, and segments that
    an upstream may interpret as a parent directory (`..;x`, `..%2Fadmin`, `%252e%252e`).
    """
    # `translate` removes the listed characters ten times as fast as a regex finds others.
    if raw.startswith(b"/") and b"/." not in raw and not raw.translate(None, _PLAIN):
        return raw.decode("ascii")
    if not raw.startswith(b"/"):
        raise BadRequest(Message("the path must begin with a slash"))
    if raw.translate(None, _ALLOWED_RAW):
        raise BadRequest(Message("the path contains a character that must be percent-encoded"))
    path = _with_canonical_escapes(raw) if b"%" in raw else raw.decode("ascii")
    return _without_dot_segments(path) if "." in path or "%25" in path else path


def require_canonical(raw: bytes, canonical: str) -> None:
    """Raise BadRequest if the path is not in canonical form (except for the case of escapes).

    For proxies that forward the path as received, and not as gate authorized it.
    """
    written = canonical.encode("ascii")
    if raw != written and (_BAD_ESCAPE.search(raw) or encode_private(raw) != encode_private(written)):
        raise BadRequest(Message("the path is not in canonical form, so the application could read it differently from gate"))


def canonical_setting_path(text: str) -> str:
    """Return the canonical form of a configured path, decoded (`/a b`) or encoded (`/a%20b`)."""
    # quote() does not escape "%" here, so that escapes remain.  A "%" that starts no escape is literal.
    literal = _BAD_ESCAPE.sub(b"%25", text.encode())
    return canonical_path(quote(literal, safe="%/!$&'()*+,;=:@|\"<>[]^`{}").encode("ascii"))


def canonical_setting_prefix(text: str) -> str:
    """Return the canonical form of a configured prefix, whose last segment may be incomplete: `/.` matches `/.git`, and is not the root."""
    return canonical_setting_path(text + "x").removesuffix("x")


# enforcement-point: Requests: Host normalization
def canonical_host(raw: bytes) -> tuple[str, int | None]:
    """Return host and port of a Host header: lower case, without trailing dot.  The port is as received, None if absent."""
    return _HOSTS[raw]


def _parse_host(raw: bytes) -> tuple[str, int | None]:
    found = _HOST.fullmatch(raw.lower())
    if found is None:
        raise BadRequest(Message("the host is not a host name with an optional port"))
    host = _canonical_name(found[1].decode("ascii"))
    port = int(found[2]) if found[2] else None
    if port is not None and port > 65535:
        raise BadRequest(Message("the port of the host is out of range"))
    return host, port


_HOSTS = MemoCache(_parse_host, 1024, max_key_length=_MAX_HOST_LENGTH + len(".:65535"))


def _canonical_name(name: str) -> str:
    if name.startswith("["):
        try:
            return f"[{ipaddress.IPv6Address(name[1:-1]).compressed}]"
        except ValueError as error:
            raise BadRequest(Message("the host is not an IPv6 address")) from error
    host = name.removesuffix(".")
    if len(host) > _MAX_HOST_LENGTH or any(len(label) > _MAX_LABEL_LENGTH for label in host.split(".")):
        raise BadRequest(Message("the host name is too long"))
    return host


def _with_canonical_escapes(raw: bytes) -> str:
    try:
        apart = encode_private(raw)
    except UnicodeDecodeError as error:
        _refuse_octets(octets(encode_private(_BAD_ESCAPE.split(raw, maxsplit=1)[0])))  # the first error in the path is reported
        raise BadRequest(Message("the path contains a '%' that is not followed by two hexadecimal digits")) from error
    decoded = octets(apart)
    _refuse_octets(decoded)
    try:
        decoded.decode("utf-8")  # lenient decoders read overlong forms such as `%c0%ae` as dots and slashes
    except UnicodeDecodeError as error:
        raise BadRequest(Message("the path's percent-encoded bytes are not UTF-8")) from error
    return apart.translate(_CANONICAL)


def _refuse_octets(decoded: bytes) -> None:
    if len(decoded.translate(None, _NEVER_ESCAPED)) < len(decoded):
        raise BadRequest(Message("the path contains an encoded control character or backslash"))


def _without_dot_segments(path: str) -> str:
    enclosed = "/" + path[1:].replace("/", "//") + "/"  # duplicate the slashes, so that adjacent segments do not share one
    named = enclosed.replace("/../", "").replace("/./", "")
    _refuse_hidden_parents(named)
    if named == enclosed:
        return path
    segments: list[str] = []
    for part in enclosed.replace("/./", "").split("/../"):
        del segments[-1:]
        segments.extend(part[1:-1].split("//") if part else ())
    if path.endswith(("/.", "/..")):
        segments.append("")
    return "/" + "/".join(segments)


def _refuse_hidden_parents(named: str) -> None:
    """Reject segments that become a parent directory in servers that strip path parameters, decode `%2F` or `%3F`, or decode repeatedly."""
    read = _ESCAPED_AGAIN.sub("%", named.upper())
    for written, character in _EQUIVALENT_SEPARATORS:
        read = read.replace(written, character)
    if any(parent in read for parent in _TRAVERSALS):
        raise BadRequest(Message("the path contains a segment that could be read as a parent directory"))
