"""Policy language: parses the blocks of a route's `policy` into a tree of comparisons, or into findings with their key paths.

Every map has one key, so that no meaning depends on how several keys combine.
"""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import PydanticCustomError

from config.fields.field_type import JsonSchema
from config.routes.policy.criteria import CRITERIA, CriterionType, time_zone

EFFECTS = ("allow", "deny")
AUTHENTICATION = "authentication"  # effect of route keys that restrict how users sign in
ENFORCE, SHADOW = MODES = ("enforce", "shadow")
COMBINATIONS = ("and", "or", "nor", "not")
# Criteria on the records of a user, independent of the request.
IDENTITY_CRITERIA = ("email", "domain", "user", "groups", "provider", "claim")
_MAX_DEPTH = 16
_MAX_COMPARISONS = 10_000
_BLOCK_SCHEMA: JsonSchema = {
    "type": "object",
    "minProperties": 1,
    "properties": {"allow": {"type": "object"}, "deny": {"type": "object"}, "mode": {"type": "string", "enum": list(MODES)}},
    "anyOf": [{"required": ["allow"]}, {"required": ["deny"]}],
    "additionalProperties": False,
}
POLICY_SCHEMA: JsonSchema = {"anyOf": [_BLOCK_SCHEMA, {"type": "array", "minItems": 1, "items": _BLOCK_SCHEMA}]}

Place = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One criterion with one operator. `key` is its key path in the route, `argument` the part after the slash."""

    key: str
    criterion: str
    argument: str
    operator: str
    is_negated: bool
    operand: Any
    zone: str = "UTC"


@dataclass(frozen=True, slots=True)
class Combination:
    operator: str
    parts: tuple["Expression", ...]


Expression = Comparison | Combination


@dataclass(frozen=True, slots=True)
class Block:
    """Block of a policy. A block with `mode` SHADOW is evaluated and reported, but not enforced. `is_route_key`: it was made from a route
    key.
    """

    key: str
    effect: str
    expression: Expression
    mode: str = ENFORCE
    is_route_key: bool = False


def parse_policy(value: Any) -> tuple[Block, ...]:
    """Parse a policy for pydantic. Raises an error with all findings and their key paths."""
    if isinstance(value, tuple):
        return value
    reader = _PolicyReader()
    blocks = tuple(reader.blocks(value))
    if reader.findings:
        raise PydanticCustomError("rules", "breaks a rule", {"findings": reader.findings})
    return blocks


def identity_expression(value: Any, findings: list[tuple[Place, str]]) -> Expression | None:
    """Parse a list of criteria on users, of which one must match. Other criteria become findings."""
    reader = _PolicyReader()
    try:
        expression = Combination("or", reader._parts(value, (), 0))
    except _InvalidPart:
        expression = None
    findings.extend(reader.findings)
    others = {
        each.criterion
        for each in iter_expression_comparisons([expression] if expression else [])
        if each.criterion not in IDENTITY_CRITERIA
    }
    findings.extend(((), f"{name} does not identify a user. Use {', '.join(IDENTITY_CRITERIA)}") for name in sorted(others))
    return expression


def iter_comparisons(blocks: Iterable[Block]) -> Iterator[Comparison]:
    return iter_expression_comparisons(block.expression for block in blocks)


def iter_expression_comparisons(expressions: Iterable[Expression]) -> Iterator[Comparison]:
    waiting = list(expressions)
    while waiting:
        expression = waiting.pop()
        if isinstance(expression, Comparison):
            yield expression
        else:
            waiting.extend(expression.parts)


class _InvalidPart(Exception):
    """Raised after a finding was recorded; this part of the tree has no value."""


class _PolicyReader:
    def __init__(self) -> None:
        self.findings: list[tuple[Place, str]] = []
        self._count = 0

    def blocks(self, value: Any) -> Iterator[Block]:
        written = [value] if isinstance(value, Mapping) else value
        if not isinstance(written, list) or not written:
            self.findings.append(((), "must be a list of blocks, each with `allow` or `deny`"))
            return
        for index, block in enumerate(written):
            place: Place = (index,) if isinstance(value, list) else ()
            try:
                yield from self._block(block, place)
            except _InvalidPart:
                continue

    def _block(self, block: Any, place: Place) -> Iterator[Block]:
        if not isinstance(block, Mapping) or not block:
            raise self._fail(place, "must be a map with `allow` or `deny`")
        mode = block.get("mode", ENFORCE)
        if mode not in MODES:
            raise self._fail((*place, "mode"), _unknown(mode, MODES, "is neither `enforce` nor `shadow`"))
        effects = {name: expression for name, expression in block.items() if name != "mode"}
        if not effects:
            raise self._fail(place, "has a mode, but neither `allow` nor `deny`")
        for effect, expression in effects.items():
            if effect not in EFFECTS:
                self._fail((*place, str(effect)), _unknown(effect, EFFECTS, "is neither `allow` nor `deny`"))
                continue
            try:
                yield Block(_key((*place, effect)), effect, self._expression(expression, (*place, effect), 0), mode)
            except _InvalidPart:
                continue

    def _expression(self, value: Any, place: Place, depth: int) -> Expression:
        if depth > _MAX_DEPTH:
            raise self._fail(place, f"is nested deeper than {_MAX_DEPTH} levels")
        if not isinstance(value, Mapping) or not value:
            raise self._fail(place, "must be a map of one criterion, or of `and`, `or`, `nor` or `not`")
        if len(value) > 1:
            raise self._fail(place, "has several keys. Combine them explicitly as a list under `and:` or `or:`")
        ((name, content),) = value.items()
        if name in ("and", "or", "nor"):
            return Combination(name, self._parts(content, (*place, name), depth))
        if name == "not":
            return Combination("not", (self._negated(content, (*place, name), depth),))
        return self._criterion(str(name), content, (*place, str(name)))

    def _parts(self, value: Any, place: Place, depth: int) -> tuple[Expression, ...]:
        if not isinstance(value, list) or not value:
            raise self._fail(place, "must be a list with at least one criterion")
        parts = []
        for index, part in enumerate(value):
            try:
                parts.append(self._expression(part, (*place, index), depth + 1))
            except _InvalidPart:
                continue
        if len(parts) < len(value):
            raise _InvalidPart
        return tuple(parts)

    def _negated(self, value: Any, place: Place, depth: int) -> Expression:
        if isinstance(value, list):
            if len(value) != 1:
                raise self._fail(place, "takes one criterion. For several use `nor:` (none of them) or `not: {and: [...]}`")
            return self._expression(value[0], (*place, 0), depth + 1)
        return self._expression(value, place, depth + 1)

    def _criterion(self, written: str, value: Any, place: Place) -> Expression:
        self._count += 1
        if self._count > _MAX_COMPARISONS:
            raise self._fail(place, f"exceeds the limit of {_MAX_COMPARISONS:,} criteria per route")
        name, slash, argument = written.partition("/")
        kind = CRITERIA.get(name)
        if kind is None:
            raise self._fail(place, _unknown(written, [*CRITERIA, *COMBINATIONS], "is not a criterion"))
        if bool(slash) != bool(kind.argument) or (slash and not argument):
            form = f"{name}/<{kind.argument}>" if kind.argument else name
            raise self._fail(place, f"must be written {form}")
        try:
            argument = kind.read_argument(argument)
        except ValueError as error:
            raise self._fail(place, str(error)) from None
        written_operators, zone = self._operators(kind, value, place)
        found = [self._comparison(kind, (name, argument), operator, place, zone) for operator in written_operators]
        if any(comparison is None for comparison in found):
            raise _InvalidPart
        parts = tuple(comparison for comparison in found if comparison is not None)
        return parts[0] if len(parts) == 1 else self._combine(name, parts, place)

    def _combine(self, name: str, parts: tuple[Comparison, ...], place: Place) -> Combination:
        """Combine operators: all must hold, except that a time range across midnight holds after its start or before its end."""
        bounds = {part.operator: part.operand for part in parts}
        if name in ("time_of_day", "date") and "after" in bounds and "before" in bounds:
            if bounds["after"] == bounds["before"] or (name == "date" and bounds["after"] > bounds["before"]):
                raise self._fail(place, "is never true: `before` must be later than `after`")
            if bounds["after"] > bounds["before"]:
                return Combination("or", parts)
        return Combination("and", parts)

    def _operators(self, kind: CriterionType, value: Any, place: Place) -> tuple[list[tuple[str, Any, Place]], str]:
        """Return each operator with its operand and key path; in the short form, the key path of the criterion."""
        if not isinstance(value, Mapping):
            short = kind.short_list if isinstance(value, list) else kind.short
            if not short:
                raise self._fail(place, f"needs an operator: {', '.join(kind.operators)}")
            return [(short, value, place)], "UTC"
        zone = "UTC"
        if kind.has_zone and "zone" in value:
            try:
                zone = time_zone(value["zone"])
            except ValueError as error:
                self._fail((*place, "zone"), str(error))
        operators = [(str(name), operand, (*place, str(name))) for name, operand in value.items() if not (kind.has_zone and name == "zone")]
        if not operators:
            raise self._fail(place, f"needs an operator: {', '.join(kind.operators)}")
        return operators, zone

    def _comparison(
        self, kind: CriterionType, criterion: tuple[str, str], written: tuple[str, Any, Place], place: Place, zone: str
    ) -> Comparison | None:
        name, value, value_place = written
        operator = name.removeprefix("not_")
        is_negated = operator != name
        if operator not in kind.operators or (is_negated and operator not in kind.negatable):
            known = [*kind.operators, *(f"not_{each}" for each in kind.negatable)]
            self._fail(value_place, _unknown(name, known, f"is not an operator of {criterion[0]}. Use {', '.join(known)}"))
            return None
        try:
            operand = kind.read_operand(operator, value)
        except ValueError as error:
            self._fail(value_place, str(error))
            return None
        return Comparison(_key(place), *criterion, operator, is_negated, operand, zone)

    def _fail(self, place: Place, message: str) -> _InvalidPart:
        self.findings.append((place, message))
        return _InvalidPart()


def _unknown(written: Any, known: Iterable[str], otherwise: str) -> str:
    name = str(written)[:80]
    close = difflib.get_close_matches(name.lower().partition("/")[0], list(known), n=1)
    return f"{otherwise}. Did you mean {close[0]}?" if close else otherwise


def _key(place: Place) -> str:
    return "policy" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)
