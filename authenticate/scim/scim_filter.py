"""SCIM filters (RFC 7644 3.4.2.2): a text becomes a predicate on resources."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from authenticate.scim.attribute_paths import Path, folded, path_of, values_at
from authenticate.scim.scim_errors import ScimError

LONGEST = 2000
DEEPEST = 20

Matches = Callable[[Any], bool]

_TOKEN = re.compile(r'\s*(?:([()\[\]])|("(?:[^"\\]|\\.)*")|([^\s()\[\]"]+))')
_NAME = re.compile(r"[A-Za-z$][\w$:.-]*")
_LITERALS = {"true": True, "false": False, "null": None}


@dataclass(frozen=True, slots=True)
class ScimFilter:
    """A parsed filter.  `equals` is (lower-case attribute, value) where the whole filter is one `eq` of a text: an index can answer
    that.
    """

    matches: Matches
    equals: tuple[str, str] | None = None


def parse(text: str) -> ScimFilter:
    """The filter in a text; ScimError where it is none."""
    if len(text) > LONGEST:
        raise _wrong(f"it is longer than {LONGEST} characters")
    parser = _Parser(_tokens(text))
    found = parser.either(0)
    if parser.rest:
        raise _wrong(f"unexpected {parser.rest[0]!r}")
    return found


def _wrong(detail: str) -> ScimError:
    return ScimError(400, f"the filter can't be read: {detail}", "invalidFilter")


def _tokens(text: str) -> list[str]:
    tokens, at, text = [], 0, text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _wrong(f"at character {at + 1}")
        tokens.append(next(group for group in match.groups() if group is not None))
        at = match.end()
    return tokens


class _Parser:
    """Recursive descent: `or` binds weakest, then `and`, then `not`."""

    def __init__(self, tokens: list[str]):
        self.rest = tokens

    def either(self, depth: int) -> ScimFilter:
        return self._joined("or", self._both, any, depth)

    def _both(self, depth: int) -> ScimFilter:
        return self._joined("and", self._one, all, depth)

    def _joined(self, word: str, operand: Callable[[int], ScimFilter], join: Callable[..., bool], depth: int) -> ScimFilter:
        if depth > DEEPEST:
            raise _wrong("it is nested too deeply")
        operands = [operand(depth)]
        while self.rest and self.rest[0].lower() == word:
            self.rest.pop(0)
            operands.append(operand(depth))
        if len(operands) == 1:
            return operands[0]
        return ScimFilter(lambda resource: join(each.matches(resource) for each in operands))

    def _one(self, depth: int) -> ScimFilter:
        word = self._next("an attribute")
        if word.lower() == "not" and self.rest[:1] == ["("]:
            self.rest.pop(0)
            inner = self._grouped(")", depth)
            return ScimFilter(lambda resource: not inner.matches(resource))
        if word == "(":
            return self._grouped(")", depth)
        path = _path(word)
        if self.rest[:1] == ["["]:
            self.rest.pop(0)
            inner = self._grouped("]", depth)
            if self.rest[:1] and self.rest[0].startswith("."):
                # Not in the standard's grammar; Entra ID asks in this way for what it matches people by.
                of_each = self._comparison(_path(self.rest.pop(0)[1:]))
                return ScimFilter(lambda resource: of_each.matches(list(filter(inner.matches, values_at(resource, path)))))
            return ScimFilter(lambda resource: any(inner.matches(element) for element in values_at(resource, path)))
        return self._comparison(path)

    def _grouped(self, end: str, depth: int) -> ScimFilter:
        inner = self.either(depth + 1)
        if self._next(repr(end)) != end:
            raise _wrong(f"a {end!r} is missing")
        return inner

    def _comparison(self, path: Path) -> ScimFilter:
        operator = self._next("an operator").lower()
        if operator == "pr":
            return ScimFilter(lambda resource: any(value not in ("", [], {}) for value in values_at(resource, path)))
        compare = _OPERATORS.get(operator)
        if compare is None:
            raise _wrong(f"{operator!r} is not an operator")
        value = _literal(self._next("a value"))
        wanted = folded(path, value)

        def matches(resource: Any) -> bool:
            found = [folded(path, each) for each in _simple(values_at(resource, path))]
            if operator == "ne":
                return all(each != wanted for each in found)
            return any(compare(each, wanted) for each in found)

        is_plain = operator == "eq" and len(path) == 1 and isinstance(value, str)
        return ScimFilter(matches, (path[0].lower(), str(value)) if is_plain else None)

    def _next(self, what: str) -> str:
        if not self.rest:
            raise _wrong(f"{what} is missing at its end")
        return self.rest.pop(0)


def _path(word: str) -> Path:
    path = path_of(word) if _NAME.fullmatch(word) else ()
    if not path:
        raise _wrong(f"{word!r} is not an attribute")
    return path


def _literal(token: str) -> Any:
    if token.lower() in _LITERALS:
        return _LITERALS[token.lower()]
    try:
        value = json.loads(token)
    except (ValueError, RecursionError) as error:
        raise _wrong(f"{token!r} is not a value") from error
    if not isinstance(value, str | int | float):
        raise _wrong(f"{token!r} is not a value")
    return value


def _simple(values: list[Any]) -> list[Any]:
    """The values compared: `emails eq "x"` means their `value`."""
    return [value.get("value") if isinstance(value, dict) else value for value in values]


def _of_texts(compare: Callable[[str, str], bool]) -> Callable[[Any, Any], bool]:
    return lambda found, wanted: isinstance(found, str) and isinstance(wanted, str) and compare(found, wanted)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    return lambda found, wanted: type(found) is type(wanted) and not isinstance(found, bool | None) and compare(found, wanted)


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda found, wanted: type(found) is type(wanted) and found == wanted,
    "ne": lambda found, wanted: found != wanted,
    "co": _of_texts(lambda found, wanted: wanted in found),
    "sw": _of_texts(lambda found, wanted: found.startswith(wanted)),
    "ew": _of_texts(lambda found, wanted: found.endswith(wanted)),
    "gt": _ordered(lambda found, wanted: found > wanted),
    "ge": _ordered(lambda found, wanted: found >= wanted),
    "lt": _ordered(lambda found, wanted: found < wanted),
    "le": _ordered(lambda found, wanted: found <= wanted),
}
