"""Rules of Traefik's routers (v2 and v3): which hosts and paths a rule is about."""

import re
from dataclasses import dataclass

_SIGN = re.compile(r"\s*(&&|\|\||!|\(|\)|([A-Za-z]+)\(((?:\s*,?\s*(?:`[^`]*`|\"[^\"]*\"))*)\s*\))")
_VALUE = re.compile(r"`([^`]*)`|\"([^\"]*)\"")
_MOST = 64


@dataclass(frozen=True, slots=True)
class RulePart:
    """Part of a rule: one of its alternatives.  `unread` are the matchers that have no counterpart; without them it takes more requests."""

    host: str = ""
    path: str = ""
    is_prefix: bool = True
    unread: tuple[str, ...] = ()


class UnreadableRule(ValueError):
    """Rule that is not understood as a whole."""


def rule_parts(rule: str) -> list[RulePart]:
    """Parts of a rule; UnreadableRule."""
    signs = _signs(rule)
    found = _either(signs)
    if signs or len(found) > _MOST:
        raise UnreadableRule("it is not supported")
    return found


def _signs(rule: str) -> list[re.Match[str]]:
    found, at = [], 0
    while at < len(rule.rstrip()):
        match = _SIGN.match(rule, at)
        if match is None:
            raise UnreadableRule("it is not supported")
        found.append(match)
        at = match.end()
    return found[::-1]


def _either(signs: list[re.Match[str]]) -> list[RulePart]:
    found = _both(signs)
    while signs and signs[-1][1] == "||":
        signs.pop()
        found += _both(signs)
    return found


def _both(signs: list[re.Match[str]]) -> list[RulePart]:
    found = _single(signs)
    while signs and signs[-1][1] == "&&":
        signs.pop()
        others = _single(signs)
        if len(found) * len(others) > _MOST:
            raise UnreadableRule("it has too many alternatives")
        found = [_together(one, other) for one in found for other in others]
    return found


def _single(signs: list[re.Match[str]]) -> list[RulePart]:
    sign = signs.pop() if signs else None
    if sign is None or sign[1] in ("&&", "||", ")"):
        raise UnreadableRule("it is not supported")
    if sign[1] == "(":
        found = _either(signs)
        if not signs or signs.pop()[1] != ")":
            raise UnreadableRule("unclosed bracket")
        return found
    if sign[1] == "!":
        _single(signs)
        return [RulePart(unread=("!",))]
    return _matcher(sign[2], [one or other for one, other in _VALUE.findall(sign[3])])


def _matcher(name: str, values: list[str]) -> list[RulePart]:
    if name == "Host" and values:
        return [RulePart(host=value.lower()) for value in values]
    if name in ("Path", "PathPrefix") and values and not any("{" in value for value in values):
        return [RulePart(path=value, is_prefix=name == "PathPrefix") for value in values]
    return [RulePart(unread=(name,))]


def _together(one: RulePart, other: RulePart) -> RulePart:
    """Two hosts or two paths at once: the first is kept, and the other is said."""
    unread = (*one.unread, *other.unread)
    if one.host and other.host:
        unread += ("Host",)
    if one.path and other.path:
        unread += ("PathPrefix",)
    chosen = one if one.path else other
    return RulePart(one.host or other.host, chosen.path, chosen.is_prefix, unread)
