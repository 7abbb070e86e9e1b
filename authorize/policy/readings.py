"""Which paths do the readers in the field make of one canonical path?

Readers here are whatever may stand behind us: what they take for the path is what they serve.
"""

import re

from gateproject.bounded import remembered
from gateproject.errors import TooManyReadings

# Escapes of characters that end nothing: a reader decodes them or not, and reads the same place.
_NAMES = re.compile(r"%(2[1246-9A-E]|3[0-9AC-E]|[46][0-9A-F]|5[0-9ABD-F]|7[0-9A-E])")
# Escapes of characters that end a segment, its name or the path for who decodes first, and of the percent sign.
_DELIMITERS = re.compile(r"%(?:2F|3B|3F|23|25)")
_TELLING = re.compile(rf"{_NAMES.pattern}|{_DELIMITERS.pattern}")
# What multiplies readings: each is work for every route, so a path may hold so many, and a longer one fewer.
_MARKS = re.compile(rf"{_DELIMITERS.pattern}|;|//+")
MOST_MARKS = 32
LONGEST_WITH_MOST_MARKS = 512
# ASP.NET Framework keeps sessions (S), sign-ins (F) and anonymous names (A) in a segment that its applications never see.
_COOKIELESS = re.compile(r"/\((?:[A-Z]\([^()/]*\))+\)(?=/|$)", re.IGNORECASE)
_COOKIELESS_OF_MERGED = re.compile(f"(?<!/)/*{_COOKIELESS.pattern}", re.IGNORECASE)
_QUERY = re.compile(r"%(?:3F|23).*", re.DOTALL)
_PARAMETERS = re.compile(r";[^/]*")
_LAST_PARAMETERS = re.compile(r";[^/]*$")
_SLASHES = re.compile(r"//+")
_HOST = re.compile(r"//[^/]*")
_HOST_OF_BROWSERS = re.compile(r"//+[^/]*")  # WHATWG URL 4.4: more slashes before a host are passed over
_ESCAPED_TWICE = re.compile(r"%25([0-9A-Fa-f]{2})")
_ESCAPED_AGAIN = re.compile(r"%(?:25)+([0-9A-Fa-f]{2})")

# Parts of an expression (RE2): an escaped character, a class, an escape of a path, anything else.
_PARTS = re.compile(r"\\.|\[\^?\]?(?:\\.|\[:[^\]]*:\]|[^\]\\])*\]|%[0-9A-F]{2}(?![*+?{])|.", re.DOTALL)


def is_read_alike(path: str) -> bool:
    """Does every reader make the same of this canonical path?  True of nearly every path, so it costs next to nothing."""
    if ";" in path or "//" in path or ("(" in path and _COOKIELESS.search(path) is not None):
        return False
    return "%" not in path or _TELLING.search(path) is None


def readings(path: str) -> tuple[str, ...]:
    """Every path that a reader may take this canonical one for, in canonical form, but with the escapes of `_NAMES` decoded.

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
    | drops segments of sessions (ASP.NET Framework) | `/admin` of `/(S(x))/admin`|

    What they hold that can't stand in a canonical path is encoded again, so a space stays `%20` in each of them.  No reader finds
    a dot segment: `canonical_path` refuses whatever any of them would take for one.  TooManyReadings as of `require_few_marks`.
    """
    if is_read_alike(path):
        return (path,)
    require_few_marks(path)
    return _all(path)


def require_few_marks(path: str) -> None:
    """TooManyReadings beyond 32 marks (`%2F %3B %3F %23 %25 ; //`), or beyond 16,384 of them times characters."""
    marks = len(_MARKS.findall(path))
    if marks > MOST_MARKS or marks * len(path) > MOST_MARKS * LONGEST_WITH_MOST_MARKS:
        raise TooManyReadings()


def names_left(path: str) -> dict[str, list[str]]:
    """Each reading of the path, and the forms that it has before the escapes of `_NAMES` are decoded."""
    forms = dict[str, list[str]]()
    for text in _forms(path):
        forms.setdefault(_NAMES.sub(_character, text), []).append(text)
    return forms


# A path has some dozens of readings at worst, none much longer than itself: a few MiB in all.
@remembered(256, longest=256)
def _all(path: str) -> tuple[str, ...]:
    return _forms(_NAMES.sub(_character, path))


def _forms(written: str) -> tuple[str, ...]:
    found = dict.fromkeys(_cut(written))
    if _DELIMITERS.search(written):
        found.update(dict.fromkeys([_QUERY.sub("", text) for text in found]))
        found.update(dict.fromkeys([each for text in found for decoded in _decoded(text) for each in _cut(decoded)]))
        if "%25" in written:
            found.update(dict.fromkeys([_QUERY.sub("", text) for text in found]))
            found.update(dict.fromkeys([text.replace("%5C", "/") for text in found]))  # escaped once, `canonical_path` refuses it
    if any("(" in text for text in found):
        found.update(dict.fromkeys([dropped.sub("", text) or "/" for text in found for dropped in (_COOKIELESS, _COOKIELESS_OF_MERGED)]))
    if any("//" in text for text in found):
        for text in tuple(found):
            found[_SLASHES.sub("/", text)] = None
            if text.startswith("//"):
                for rest in (_HOST.sub("", text, count=1) or "/", _HOST_OF_BROWSERS.sub("", text, count=1) or "/"):
                    found.update(dict.fromkeys((rest, _SLASHES.sub("/", rest))))
    return tuple(found)


def _cut(text: str) -> tuple[str, ...]:
    """With its parameters, without those of each segment or of the last one, and without all that follows the first of them."""
    if ";" not in text:
        return (text,)
    return (text, _PARAMETERS.sub("", text), _LAST_PARAMETERS.sub("", text), text.partition(";")[0])


def _decoded(text: str) -> tuple[str, ...]:
    """By who leaves `%2F` alone, who decodes once, who does it twice, and who goes on until nothing is left to decode."""
    most = text.replace("%3B", ";")
    once = most.replace("%2F", "/")
    if "%25" not in text:
        return (most, once)
    return (most, once, _ESCAPED_TWICE.sub(_decoded_again, once), _ESCAPED_AGAIN.sub(_decoded_again, once))


def _character(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 16))


def _decoded_again(escape: re.Match[str]) -> str:
    code = int(escape[1], 16)
    return chr(code) if 0x21 <= code < 0x7F and chr(code) not in "%?#\\" else f"%{code:02X}"


def setting_forms(text: str) -> tuple[str, ...]:
    """What a path, prefix or part of one that the configuration gives, in canonical form, looks like in `readings`.

    It owns its decoded forms too: an escape that the operator wrote is meant.
    """
    written = _NAMES.sub(_character, text)
    return tuple(dict.fromkeys((written, *_decoded(written))))


def expression_form(expression: str) -> str:
    """The expression that matches, of what this one matches, the decoded reading: `%2F` is a slash, but for classes of characters."""
    return "".join(map(_part_decoded, _PARTS.findall(expression)))


def _part_decoded(part: str) -> str:
    if not part.startswith("%") or len(part) == 1:
        return part
    text = _NAMES.sub(_character, part)
    return re.escape(_decoded(text)[1] if text == part else text)
