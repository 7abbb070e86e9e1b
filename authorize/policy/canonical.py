"""Which one path and which one host does a request name?  Everything that has two readings is refused."""

import ipaddress
import re
from urllib.parse import quote, unquote_to_bytes

from gateproject.bounded import remembered
from gateproject.errors import BadRequest

UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")

# Nearly every path: no escape, no parameter, no segment that begins with a dot; such a path is its own canonical form.
_PLAIN_TEXT = re.compile(r"(?:/(?!\.)[A-Za-z0-9_~!$&'()*+,=:@.-]*)+")
_PLAIN = re.compile(_PLAIN_TEXT.pattern.encode())
_REFUSED = re.compile(rb"[^\x21-\x7e]|[#?\\]")
_ESCAPE = re.compile(r"%(.{0,2})")
_ANY_ESCAPE = re.compile(rb"%[0-9a-fA-F]{2}")
_HEX = re.compile(r"[0-9A-Fa-f]{2}")
_ESCAPED_AGAIN = re.compile(r"%(?:25)+(?=[0-9A-Fa-f]{2})")
_ESCAPED_DOT = re.compile(r"%2[Ee]")
# Where some reader of a segment ends its name.
_SEGMENT_ENDS = re.compile(r";|%(?:2F|3B|5C)", re.IGNORECASE)
# Where the path ends for who decodes first: what stands behind is no segment's beginning to anybody.
_PATH_ENDS = re.compile(r"%(?:3F|23).*", re.IGNORECASE | re.DOTALL)

_HOST = re.compile(rb"(\[[0-9a-f:.]+\]|[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?)(?::([1-9][0-9]{0,4}))?")
_LONGEST_HOST = 253
_LONGEST_LABEL = 63


def canonical_path(raw: bytes) -> str:
    """The path (without query) as percent-encoded ASCII: the form that is matched, decided on and forwarded.

    RFC 3986 6.2.2: unreserved escapes decoded, other escapes in upper-case hex, dot segments resolved (5.2.4, never above the
    root).  Duplicate slashes and `%2F` stay.  BadRequest for controls, spaces, backslashes, non-ASCII bytes, bad escapes, escapes
    that are not UTF-8, and segments that an upstream may read as a parent directory (`..;x`, `..%2Fadmin`, `%252e%252e`).
    """
    if _PLAIN.fullmatch(raw):
        return raw.decode("ascii")
    if not raw.startswith(b"/"):
        raise BadRequest("the path must begin with a slash")
    if _REFUSED.search(raw):
        raise BadRequest("the path holds a character that must be percent-encoded")
    path = _ESCAPE.sub(_canonical_escape, raw.decode("ascii"))
    _require_utf8(path)
    return _without_dot_segments(path)


def require_plain(raw: bytes, canonical: str) -> None:
    """BadRequest where the path as written is not its canonical form (the case of escapes aside).

    For proxies that ask us and then forward what the client wrote, not what we judged.
    """
    written = canonical.encode("ascii")
    if raw != written and _ANY_ESCAPE.sub(lambda escape: escape[0].upper(), raw) != written:
        raise BadRequest("the path is not in its plain form, so the application might read another path than the one judged")


def canonical_setting_path(text: str) -> str:
    """The canonical form of a path that the configuration gives, decoded (`/a b`) or encoded (`/a%20b`)."""
    if _PLAIN_TEXT.fullmatch(text):
        return text
    # quote() leaves "%" alone here, so an escape stays one; a "%" that begins none is meant literally.
    literal = re.sub(r"%(?![0-9A-Fa-f]{2})", "%25", text)
    return canonical_path(quote(literal, safe="%/!$&'()*+,;=:@|\"<>[]^`{}").encode("ascii"))


def canonical_setting_prefix(text: str) -> str:
    """Like `canonical_setting_path`, but the last segment is only the beginning of one: `/.` means `/.git`, not the root."""
    return canonical_setting_path(text + "x").removesuffix("x")


@remembered(1024, longest=_LONGEST_HOST + len(".:65535"))
def canonical_host(raw: bytes) -> tuple[str, int | None]:
    """Host and port of a Host header: lower-case, without trailing dot; the port as written, None where there is none."""
    found = _HOST.fullmatch(raw.lower())
    if found is None:
        raise BadRequest("the host is not a host name with an optional port")
    host = _canonical_name(found[1].decode("ascii"))
    port = int(found[2]) if found[2] else None
    if port is not None and port > 65535:
        raise BadRequest("the port of the host is out of range")
    return host, port


def _canonical_name(name: str) -> str:
    if name.startswith("["):
        try:
            return f"[{ipaddress.IPv6Address(name[1:-1]).compressed}]"
        except ValueError as error:
            raise BadRequest("the host is not an IPv6 address") from error
    host = name.removesuffix(".")
    if len(host) > _LONGEST_HOST or any(len(label) > _LONGEST_LABEL for label in host.split(".")):
        raise BadRequest("the host name is too long")
    return host


def _canonical_escape(escape: re.Match[str]) -> str:
    if not _HEX.fullmatch(escape[1]):
        raise BadRequest("the path holds a '%' that is not followed by two hexadecimal digits")
    code = int(escape[1], 16)
    if code < 0x20 or code in (0x5C, 0x7F):
        raise BadRequest("the path holds an encoded control character or backslash")
    return chr(code) if chr(code) in UNRESERVED else f"%{code:02X}"


def _require_utf8(path: str) -> None:
    """Overlong forms such as `%c0%ae` are dots and slashes to careless decoders."""
    try:
        unquote_to_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadRequest("the path's percent-encoded bytes are not UTF-8") from error


def _without_dot_segments(path: str) -> str:
    segments = path.split("/")[1:]
    kept: list[str] = []
    for segment in segments:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            _refuse_hidden_parent(segment)
            kept.append(segment)
    if segments[-1] in (".", ".."):
        kept.append("")
    return "/" + "/".join(kept)


def _refuse_hidden_parent(segment: str) -> None:
    """Servers that cut path parameters, decode `%2F` or `%3F`, or decode more than once would climb where we did not."""
    if "." not in segment and "%25" not in segment:
        return
    parts = _SEGMENT_ENDS.split(_ESCAPED_DOT.sub(".", _ESCAPED_AGAIN.sub("%", segment)))
    if any(_PATH_ENDS.sub("", part) in (".", "..") for part in parts):
        raise BadRequest("the path holds a segment that could be read as a parent directory")
