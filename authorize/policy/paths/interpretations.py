"""Interpretations of a path: the paths that known servers derive from one canonical path.

An upstream may be any of these servers, and serves the path that it derives.
"""

import re
import string
from collections.abc import Collection, Iterable

from foundation.bounded_cache import bounded_lru_cache
from foundation.errors import PathTooAmbiguous

# Escapes of characters that delimit nothing.  Decoding them does not change the resource.
_NON_DELIMITER_ESCAPES = re.compile(r"%(2[1246-9A-E]|3[0-9AC-E]|[46][0-9A-F]|5[0-9ABD-F]|7[0-9A-E])")
_NON_DELIMITERS = {f"{code:02X}": chr(code) for code in range(0x100) if _NON_DELIMITER_ESCAPES.fullmatch(f"%{code:02X}")}
# Escapes of the percent sign, and of characters that end a segment, its name or the path for servers that decode first.
_DELIMITERS = re.compile(r"%(?:2F|3B|3F|23|25)")
_SIGNIFICANT = re.compile(rf"{_NON_DELIMITER_ESCAPES.pattern}|{_DELIMITERS.pattern}")
# Tokens that multiply interpretations.  Each interpretation is matched against every route, so their number is limited, and more for long
# paths.
_AMBIGUOUS_TOKENS = ("%2F", "%3B", "%3F", "%23", "%25", ";")
_SLASHES = re.compile(r"///*")
MAX_AMBIGUOUS_TOKENS = 32
MAX_LENGTH_AT_TOKEN_LIMIT = 512
# Each interpretation is matched against the routes of the host.  Links of applications have one to four.  A path that contains a URL with a
# query has six to eight.  More occur only in attacks.
MAX_INTERPRETATIONS = 8
# ASP.NET Framework stores sessions (S), sign-ins (F) and anonymous names (A) in a segment that applications never receive.
_COOKIELESS = re.compile(r"/\((?:[A-Za-z]\([^()/]*\))+\)(?=/|$)")
# From the first slash only.  Otherwise a run of thousands of slashes would be scanned from each of them.
_COOKIELESS_OF_MERGED = re.compile(f"(?<!/)/*{_COOKIELESS.pattern}")
_PARAMETERS = re.compile(r";[^/]*")
_ESCAPED_AGAIN = re.compile(r"%(?:25)+([0-9A-Fa-f]{2})")
# Result of a double escape, by its digits.  Characters that cannot occur in a canonical path remain encoded.
_AGAIN = {
    first + second: chr(code) if 0x21 <= (code := int(first + second, 16)) < 0x7F and chr(code) not in "%?#\\" else f"%{code:02X}"
    for first in string.hexdigits
    for second in string.hexdigits
}

# Parts of an RE2 expression: an escaped character, a class, an escape of a path, or another character.
_PARTS = re.compile(r"\\.|\[\^?\]?(?:\\.|\[:[^\]]*:\]|[^\]\\])*\]|%[0-9A-F]{2}(?![*+?{])|.", re.DOTALL)


def is_unambiguous(path: str) -> bool:
    """Return whether every server derives the same path.  True for nearly every path, so the check must be cheap."""
    if ";" in path or "//" in path or ("(" in path and _COOKIELESS.search(path) is not None):
        return False
    return "%" not in path or _SIGNIFICANT.search(path) is None


# enforcement-point: Requests: Paths that upstreams may interpret differently
def interpretations(path: str) -> tuple[str, ...]:
    """Return every path that a server may derive from a canonical path.

    The results are canonical, with the escapes of `_NON_DELIMITER_ESCAPES` decoded.

    | a reader                                       | of `/a;x%2Fb//c%3Fd`       |
    |------------------------------------------------|----------------------------|
    | takes it as it is written                      | `/a;x%2Fb//c%3Fd`          |
    | cuts `;parameters`, then decodes (servlets)    | `/a//c%3Fd`                |
    | cuts those of the last segment only            | `/a;x%2Fb//c` of `..c;y`   |
    | cuts all from the first `;`                    | `/a`                       |
    | decodes all but `%2F`                          | `/a;x%2Fb//c%3Fd`          |
    | decodes                                        | `/a;x/b//c%3Fd`            |
    | decodes, then cuts                             | `/a/b//c%3Fd`, `/a`        |
    | decodes, then parses it as a URL               | `/a;x/b//c`, ...           |
    | decodes twice, or until nothing changes        | `%252F` is a slash, too    |
    | merges slashes, after any of these             | `/a;x%2Fb/c%3Fd`, ...      |
    | takes what follows two slashes for a host      | `/admin` of `//x/admin`    |
    | does so, then decodes                          | `/a/b` of `//x%2Fy/a%2Fb`  |
    | drops segments of sessions (ASP.NET Framework) | `/admin` of `/(S(x))/admin`|

    Characters that cannot occur in a canonical path are encoded again: a space is always `%20`.  No result has a dot segment, because
    `canonical_path` rejects every path in which a server may find one.

    Raises PathTooAmbiguous for more than 8 results, more than 32 tokens (`%2F %3B %3F %23 %25 ; //`), or more than 16,384 tokens times
    characters.
    """
    if is_unambiguous(path):
        return (path,)
    _require_few_tokens(path)
    return _all(path)


def _require_few_tokens(path: str) -> None:
    tokens = sum(map(path.count, _AMBIGUOUS_TOKENS)) + (len(_SLASHES.findall(path)) if "//" in path else 0)
    if tokens > MAX_AMBIGUOUS_TOKENS or tokens * len(path) > MAX_AMBIGUOUS_TOKENS * MAX_LENGTH_AT_TOKEN_LIMIT:
        raise PathTooAmbiguous()


def forms_by_interpretation(path: str) -> dict[str, list[str]]:
    """Return each interpretation, with its forms before the escapes of `_NON_DELIMITER_ESCAPES` are decoded.

    Raises PathTooAmbiguous.
    """
    _require_few_tokens(path)
    forms = dict[str, list[str]]()
    for text in _forms(path):
        forms.setdefault(_decode_non_delimiters(text), []).append(text)
    return forms


# Up to 8 results of at most 256 characters each, less than 1 MiB in all.
@bounded_lru_cache(256, max_key_length=256)
def _all(path: str) -> tuple[str, ...]:
    return _forms(_decode_non_delimiters(path))


def _decode_non_delimiters(text: str) -> str:
    """Return the text with the escapes of `_NON_DELIMITER_ESCAPES` decoded."""
    first, *others = text.split("%")
    return first + "".join([_NON_DELIMITERS.get(part[:2], "%" + part[:2]) + part[2:] for part in others])


def _forms(written: str) -> tuple[str, ...]:
    found = _strip_parameters((written, *_without_authority(written)))  # a server that parses a URL first decodes the rest
    if _DELIMITERS.search(written):
        found |= _without_queries(found)
        decoded = dict.fromkeys([decoded for text in found for decoded in _decoded(text)])
        _require_few(decoded)
        found |= _strip_parameters(decoded)
        _require_few(found)
        if "%25" in written:
            found |= _without_queries(found)
            # `canonical_path` rejects a single escape of it.
            found |= dict.fromkeys([text.replace("%5C", "/") for text in found if "%5C" in text])
            _require_few(found)
    if any("/(" in text for text in found):
        found |= dict.fromkeys([_COOKIELESS.sub("", text) or "/" for text in found])
        found |= dict.fromkeys([_COOKIELESS_OF_MERGED.sub("", text) or "/" for text in found if "//(" in text])
    for text in [text for text in found if "//" in text]:
        _require_few(found)
        found[_merged(text)] = None
        for rest in _without_authority(text):
            found |= {rest: None, _merged(rest): None}
    _require_few(found)
    return tuple(found)


def _require_few(found: Collection[str]) -> None:
    """Raise PathTooAmbiguous as early as possible, before more results are derived."""
    if len(found) > MAX_INTERPRETATIONS:
        raise PathTooAmbiguous()


def _strip_parameters(texts: Iterable[str]) -> dict[str, None]:
    """Return the texts unchanged, without parameters of each segment, without those of the last segment, and cut at the first parameter."""
    found = dict[str, None]()
    for text in texts:
        found[text] = None
        if ";" in text:
            front, slash, last = text.rpartition("/")
            found[_PARAMETERS.sub("", text)] = None
            found[front + slash + last.partition(";")[0]] = None
            found[text.partition(";")[0]] = None
    return found


def _without_queries(texts: Iterable[str]) -> dict[str, None]:
    return dict.fromkeys([text.partition("%3F")[0].partition("%23")[0] for text in texts])


def _decoded(text: str) -> tuple[str, ...]:
    """Return the forms for servers that do not decode `%2F`, decode once, decode twice, and decode until nothing changes."""
    slash_encoded = text.replace("%3B", ";")
    once = slash_encoded.replace("%2F", "/")
    if "%25" not in text:
        return (slash_encoded, once)
    double_decoded = _decode_escapes_again(once)
    return (slash_encoded, once, double_decoded, _ESCAPED_AGAIN.sub(_decoded_again, once) if "%2525" in once else double_decoded)


def _decode_escapes_again(text: str) -> str:
    first, *others = text.split("%25")
    return first + "".join([(_AGAIN[part[:2]] + part[2:]) if part[:2] in _AGAIN else "%25" + part for part in others])


def _without_authority(text: str) -> tuple[str, ...]:
    """Return the paths of a server that parses `//host/path` as an authority.  WHATWG URL 4.4 skips further slashes before the host."""
    if not text.startswith("//"):
        return ()
    return ("/" + text[2:].partition("/")[2], "/" + text.lstrip("/").partition("/")[2])


def _merged(text: str) -> str:
    while "//" in text:
        text = text.replace("//", "/")
    return text


def _decoded_again(escape: re.Match[str]) -> str:
    return _AGAIN[escape[1]]


def configured_forms(text: str) -> tuple[str, ...]:
    """Return the forms that a configured path, prefix or part of one has in interpretations.

    It also owns its decoded forms, because the operator wrote the escape on purpose.
    """
    written = _decode_non_delimiters(text)
    return tuple(dict.fromkeys((written, *_decoded(written))))


def decoded_regex(expression: str) -> str:
    """Return the regex for decoded interpretations: `%2F` is a slash, except in character classes."""
    return "".join(map(_part_decoded, _PARTS.findall(expression)))


def _part_decoded(part: str) -> str:
    return re.escape(_decoded(_decode_non_delimiters(part))[1]) if part.startswith("%") else part
