"""Parser of Traefik's router rules (v2 and v3): the hosts and paths that a rule matches."""

import re
from dataclasses import dataclass

_TOKEN = re.compile(r"\s*(&&|\|\||!|\(|\)|([A-Za-z]+)\(((?:\s*,?\s*(?:`[^`]*`|\"[^\"]*\"))*)\s*\))")
_VALUE = re.compile(r"`([^`]*)`|\"([^\"]*)\"")
_MAX_BRANCHES = 64


@dataclass(frozen=True, slots=True)
class RuleBranch:
    """Branch of a rule, one of its alternatives.

    `unsupported` are the matchers without a counterpart; without them, the branch matches more requests.
    """

    host: str = ""
    path: str = ""
    is_prefix: bool = True
    unsupported: tuple[str, ...] = ()


class UnsupportedRule(ValueError):
    """The rule cannot be parsed completely."""


def rule_branches(rule: str) -> list[RuleBranch]:
    """Return the branches of a rule. Raises UnsupportedRule."""
    signs = _tokenize(rule)
    found = _parse_or(signs)
    if signs or len(found) > _MAX_BRANCHES:
        raise UnsupportedRule("it is not supported")
    return found


def _tokenize(rule: str) -> list[re.Match[str]]:
    found, offset = [], 0
    while offset < len(rule.rstrip()):
        match = _TOKEN.match(rule, offset)
        if match is None:
            raise UnsupportedRule("it is not supported")
        found.append(match)
        offset = match.end()
    return found[::-1]


def _parse_or(signs: list[re.Match[str]]) -> list[RuleBranch]:
    found = _parse_and(signs)
    while signs and signs[-1][1] == "||":
        signs.pop()
        found += _parse_and(signs)
    return found


def _parse_and(signs: list[re.Match[str]]) -> list[RuleBranch]:
    found = _single(signs)
    while signs and signs[-1][1] == "&&":
        signs.pop()
        others = _single(signs)
        if len(found) * len(others) > _MAX_BRANCHES:
            raise UnsupportedRule("it has too many alternatives")
        found = [_merge(one, other) for one in found for other in others]
    return found


def _single(signs: list[re.Match[str]]) -> list[RuleBranch]:
    sign = signs.pop() if signs else None
    if sign is None or sign[1] in ("&&", "||", ")"):
        raise UnsupportedRule("it is not supported")
    if sign[1] == "(":
        found = _parse_or(signs)
        if not signs or signs.pop()[1] != ")":
            raise UnsupportedRule("unclosed bracket")
        return found
    if sign[1] == "!":
        _single(signs)
        return [RuleBranch(unsupported=("!",))]
    return _matcher(sign[2], [one or other for one, other in _VALUE.findall(sign[3])])


def _matcher(name: str, values: list[str]) -> list[RuleBranch]:
    if name == "Host" and values:
        return [RuleBranch(host=value.lower()) for value in values]
    if name in ("Path", "PathPrefix") and values and not any("{" in value for value in values):
        return [RuleBranch(path=value, is_prefix=name == "PathPrefix") for value in values]
    return [RuleBranch(unsupported=(name,))]


def _merge(one: RuleBranch, other: RuleBranch) -> RuleBranch:
    """Combine two branches. Of two hosts or two paths, the first is kept and the other becomes unsupported."""
    unsupported = (*one.unsupported, *other.unsupported)
    if one.host and other.host:
        unsupported += ("Host",)
    if one.path and other.path:
        unsupported += ("PathPrefix",)
    chosen = one if one.path else other
    return RuleBranch(one.host or other.host, chosen.path, chosen.is_prefix, unsupported)
