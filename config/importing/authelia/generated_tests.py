"""Policy tests of what Authelia's rules allowed: for each rule somebody whom it is about, somebody else, and nobody."""

from collections.abc import Iterator
from typing import Any

from config.importing.authelia.authelia_rules import BYPASS, DENY, ONE_FACTOR, TWO_FACTOR, AutheliaRequest, AutheliaRule, first_match
from config.importing.path_bounds import sample_path

MAX_TESTS_PER_HOST = 40
_OUTSIDER = ("somebody", frozenset[str]())


def generate_tests(host: str, rules: tuple[AutheliaRule, ...]) -> list[dict[str, Any]]:
    """Entries of `policy_tests`; `expect` is what Authelia did."""
    found: dict[str, dict[str, Any]] = {}
    for asked in _requests(host.replace("*", "any"), [rule for rule in rules if rule.takes_host(host)[1]]):
        rule = first_match(rules, asked)
        for test in () if rule is None else _tests(asked, rule):
            found.setdefault(repr({key: value for key, value in test.items() if key != "name"}), test)
    return list(found.values())[:MAX_TESTS_PER_HOST]


def _requests(host: str, rules: list[AutheliaRule]) -> Iterator[AutheliaRequest]:
    for rule in rules:
        people = [("", frozenset[str]()), _OUTSIDER, *map(_sample_user, rule.subjects)]
        path = next(filter(None, map(sample_path, rule.resources)), "/")
        address = rule.networks[0].partition("/")[0] if rule.networks else "203.0.113.7"
        for name, groups in people:
            yield AutheliaRequest(host, path, (*rule.methods, "GET")[0], address, name, groups)


def _sample_user(parts: tuple[str, ...]) -> tuple[str, frozenset[str]]:
    names = [part.removeprefix("user:").strip() for part in parts if part.startswith("user:")]
    return (names or ["member"])[0], frozenset(part.removeprefix("group:").strip() for part in parts if part.startswith("group:"))


def _tests(asked: AutheliaRequest, rule: AutheliaRule) -> Iterator[dict[str, Any]]:
    if not asked.username:
        if rule.policy != DENY:  # nobody may still be somebody for whom another rule comes first
            yield _test(asked, rule, "allow" if rule.policy == BYPASS else "sign-in")
        return
    passes = rule.policy in (BYPASS, ONE_FACTOR)
    yield _test(asked, rule, "allow" if passes else "refuse", ["pwd"])
    if rule.policy == TWO_FACTOR:
        yield _test(asked, rule, "allow", ["pwd", "otp", "mfa"])


def _test(asked: AutheliaRequest, rule: AutheliaRule, expect: str, amr: list[str] | None = None) -> dict[str, Any]:
    person: dict[str, Any] = {}
    if amr is not None:
        person = {"user": "someone", "claims": {"preferred_username": asked.username, "amr": amr}}
        person |= {"groups": sorted(asked.groups)} if asked.groups else {}
    method = {} if asked.method == "GET" else {"method": asked.method}
    where = {"url": f"https://{asked.host}{asked.path}", **method, "source_ip": asked.address}
    return {"name": f"{rule.source}: {rule.policy}", **where, **person, "expect": expect}
