"""Policy tests of Authelia's decisions: for each rule a user that it matches, another user, and an anonymous request."""

from collections.abc import Iterator
from typing import Any

from config.importing.authelia.authelia_rules import BYPASS, DENY, ONE_FACTOR, TWO_FACTOR, AutheliaRequest, AutheliaRule, first_match
from config.importing.path_bounds import sample_path

MAX_TESTS_PER_HOST = 40
_OUTSIDER = ("somebody", frozenset[str]())


def generate_tests(host: str, rules: tuple[AutheliaRule, ...]) -> list[dict[str, Any]]:
    """Return entries of `policy_tests`; `expect` is Authelia's decision."""
    found: dict[str, dict[str, Any]] = {}
    for request in _requests(host.replace("*", "any"), [rule for rule in rules if rule.matches_host(host)[1]]):
        rule = first_match(rules, request)
        for test in () if rule is None else _tests(request, rule):
            found.setdefault(repr({key: value for key, value in test.items() if key != "name"}), test)
    return list(found.values())[:MAX_TESTS_PER_HOST]


def _requests(host: str, rules: list[AutheliaRule]) -> Iterator[AutheliaRequest]:
    for rule in rules:
        users = [("", frozenset[str]()), _OUTSIDER, *map(_sample_user, rule.subjects)]
        path = next(filter(None, map(sample_path, rule.resources)), "/")
        address = rule.networks[0].partition("/")[0] if rule.networks else "203.0.113.7"
        for name, groups in users:
            yield AutheliaRequest(host, path, (*rule.methods, "GET")[0], address, name, groups)


def _sample_user(parts: tuple[str, ...]) -> tuple[str, frozenset[str]]:
    names = [part.removeprefix("user:").strip() for part in parts if part.startswith("user:")]
    return (names or ["member"])[0], frozenset(part.removeprefix("group:").strip() for part in parts if part.startswith("group:"))


def _tests(request: AutheliaRequest, rule: AutheliaRule) -> Iterator[dict[str, Any]]:
    if not request.username:
        if rule.policy != DENY:  # an anonymous request may become one of a user that an earlier rule matches
            yield _test(request, rule, "allow" if rule.policy == BYPASS else "sign-in")
        return
    passes = rule.policy in (BYPASS, ONE_FACTOR)
    yield _test(request, rule, "allow" if passes else "refuse", ["pwd"])
    if rule.policy == TWO_FACTOR:
        yield _test(request, rule, "allow", ["pwd", "otp", "mfa"])


def _test(request: AutheliaRequest, rule: AutheliaRule, expect: str, amr: list[str] | None = None) -> dict[str, Any]:
    user: dict[str, Any] = {}
    if amr is not None:
        user = {"user": "someone", "claims": {"preferred_username": request.username, "amr": amr}}
        user |= {"groups": sorted(request.groups)} if request.groups else {}
    method = {} if request.method == "GET" else {"method": request.method}
    where = {"url": f"https://{request.host}{request.path}", **method, "source_ip": request.address}
    return {"name": f"{rule.source}: {rule.policy}", **where, **user, "expect": expect}
