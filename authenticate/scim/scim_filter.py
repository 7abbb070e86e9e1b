"""SCIM filters (RFC 7644 3.4.2.2), parsed into predicates on resources."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from authenticate.scim.attribute_paths import Path, get_values, normalize_value, parse_path
from authenticate.scim.scim_errors import ScimError

MAX_FILTER_LENGTH = 2000
MAX_FILTER_DEPTH = 20

Matches = Callable[[Any], bool]

_TOKEN = re.compile(r'\s*(?:([()\[\]])|("(?:[^"\\]|\\.)*")|([^\s()\[\]"]+))')
_NAME = re.compile(r"[A-Za-z$][\w$:.-]*")
_LITERALS = {"true": True, "false": False, "null": None}


@dataclass(frozen=True, slots=True)
class ScimFilter:
    """Parsed filter.

    `equals` is (lower-case attribute, value) if the filter is a single `eq` with a text, so that the index can be used.
    """

    matches: Matches
    equals: tuple[str, str] | None = None


def parse_filter(text: str) -> ScimFilter:
    """Parse a filter.  Raises ScimError if it is invalid."""
    if len(text) > MAX_FILTER_LENGTH:
        raise _invalid(f"it is longer than {MAX_FILTER_LENGTH} characters")
    parser = _Parser(_tokens(text))
    found = parser.parse_or(0)
    if parser.rest:
        raise _invalid(f"unexpected {parser.rest[0]!r}")
    return found


def _invalid(detail: str) -> ScimError:
    return ScimError(400, f"the filter can't be read: {detail}", "invalidFilter")


def _tokens(text: str) -> list[str]:
    tokens, position, text = [], 0, text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _invalid(f"at character {position + 1}")
        tokens.append(next(group for group in match.groups() if group is not None))
        position = match.end()
    return tokens


class _Parser:
    """Recursive descent: `or` binds weakest, then `and`, then `not`."""

    def __init__(self, tokens: list[str]):
        self.rest = tokens

    def parse_or(self, depth: int) -> ScimFilter:
        return self._parse_operands("or", self._parse_and, any, depth)

    def _parse_and(self, depth: int) -> ScimFilter:
        return self._parse_operands("and", self._parse_term, all, depth)

    def _parse_operands(self, word: str, operand: Callable[[int], ScimFilter], join: Callable[..., bool], depth: int) -> ScimFilter:
        if depth > MAX_FILTER_DEPTH:
            raise _invalid("it is nested too deeply")
        operands = [operand(depth)]
        while self.rest and self.rest[0].lower() == word:
            self.rest.pop(0)
            operands.append(operand(depth))
        if len(operands) == 1:
            return operands[0]
        return ScimFilter(lambda resource: join(each.matches(resource) for each in operands))

    def _parse_term(self, depth: int) -> ScimFilter:
        word = self._next("an attribute")
        if word.lower() == "not" and self.rest[:1] == ["("]:
            self.rest.pop(0)
            inner = self._parse_group(")", depth)
            return ScimFilter(lambda resource: not inner.matches(resource))
        if word == "(":
            return self._parse_group(")", depth)
        path = _path(word)
        if self.rest[:1] == ["["]:
            self.rest.pop(0)
            inner = self._parse_group("]", depth)
            if self.rest[:1] and self.rest[0].startswith("."):
                # Not in the RFC's grammar, but Entra ID sends it to match users.
                of_each = self._parse_comparison(_path(self.rest.pop(0)[1:]))
                return ScimFilter(lambda resource: of_each.matches(list(filter(inner.matches, get_values(resource, path)))))
            return ScimFilter(lambda resource: any(inner.matches(element) for element in get_values(resource, path)))
        return self._parse_comparison(path)

    def _parse_group(self, end: str, depth: int) -> ScimFilter:
        inner = self.parse_or(depth + 1)
        if self._next(repr(end)) != end:
            raise _invalid(f"a {end!r} is missing")
        return inner

    def _parse_comparison(self, path: Path) -> ScimFilter:
        operator = self._next("an operator").lower()
        if operator == "pr":
            return ScimFilter(lambda resource: any(value not in ("", [], {}) for value in get_values(resource, path)))
        compare = _OPERATORS.get(operator)
        if compare is None:
            raise _invalid(f"{operator!r} is not an operator")
        value = _literal(self._next("a value"))
        expected = normalize_value(path, value)

        def matches(resource: Any) -> bool:
            found = [normalize_value(path, each) for each in _comparable_values(get_values(resource, path))]
            if operator == "ne":
                return all(each != expected for each in found)
            return any(compare(each, expected) for each in found)

        is_plain = operator == "eq" and len(path) == 1 and isinstance(value, str)
        return ScimFilter(matches, (path[0].lower(), str(value)) if is_plain else None)

    def _next(self, what: str) -> str:
        if not self.rest:
            raise _invalid(f"{what} is missing at its end")
        return self.rest.pop(0)


def _path(word: str) -> Path:
    path = parse_path(word) if _NAME.fullmatch(word) else ()
    if not path:
        raise _invalid(f"{word!r} is not an attribute")
    return path


def _literal(token: str) -> Any:
    if token.lower() in _LITERALS:
        return _LITERALS[token.lower()]
    try:
        value = json.loads(token)
    except (ValueError, RecursionError) as error:
        raise _invalid(f"{token!r} is not a value") from error
    if not isinstance(value, str | int | float):
        raise _invalid(f"{token!r} is not a value")
    return value


def _comparable_values(values: list[Any]) -> list[Any]:
    """Return the values to compare: `emails eq "x"` compares the `value` of each."""
    return [value.get("value") if isinstance(value, dict) else value for value in values]


def _text_operator(compare: Callable[[str, str], bool]) -> Callable[[Any, Any], bool]:
    return lambda found, expected: isinstance(found, str) and isinstance(expected, str) and compare(found, expected)


def _ordering_operator(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    return lambda found, expected: type(found) is type(expected) and not isinstance(found, bool | None) and compare(found, expected)


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda found, expected: type(found) is type(expected) and found == expected,
    "ne": lambda found, expected: found != expected,
    "co": _text_operator(lambda found, expected: expected in found),
    "sw": _text_operator(lambda found, expected: found.startswith(expected)),
    "ew": _text_operator(lambda found, expected: found.endswith(expected)),
    "gt": _ordering_operator(lambda found, expected: found > expected),
    "ge": _ordering_operator(lambda found, expected: found >= expected),
    "lt": _ordering_operator(lambda found, expected: found < expected),
    "le": _ordering_operator(lambda found, expected: found <= expected),
}
