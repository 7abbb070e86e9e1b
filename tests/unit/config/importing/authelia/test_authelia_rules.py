"""Rules of Authelia as they are read, and which of them decides."""

from pathlib import Path
from typing import Any

import pytest

from config.importing.authelia.authelia_rules import AutheliaRequest, first_match, read_rules
from config.importing.foreign_file import AUTHELIA, ForeignConfig
from config.parsing.document import Document


def rules_of(rules: list[dict[str, Any]], **control: Any) -> Any:
    values = {"access_control": {**control, "rules": rules}}
    return read_rules(ForeignConfig(AUTHELIA, values, Document(values), Path()))


RULE = {"domain": "A.example.com", "policy": "bypass"}


def test_default_policy_is_last_rule_and_deny_if_unset() -> None:
    assert [rule.policy for rule in rules_of([RULE])] == ["bypass", "deny"]
    assert [rule.policy for rule in rules_of([], default_policy="one_factor")] == ["one_factor"]


def test_a_policy_that_authelia_does_not_know_is_deny() -> None:
    assert rules_of([{**RULE, "policy": "two_factors"}])[0].policy == "deny"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("group:a", (("group:a",),)),
        (["group:a", "user:b"], (("group:a",), ("user:b",))),
        ([["group:a", "user:b"]], (("group:a", "user:b"),)),
    ],
)
def test_subjects_are_ored_outside_and_anded_inside(written: Any, read: Any) -> None:
    assert rules_of([{**RULE, "subject": written}])[0].subjects == read


@pytest.mark.parametrize(
    "key",
    [
        {"query": [[{"key": "x"}]]},
        {"networks": ["nowhere"]},
        {"subject": "oauth2:client:x"},
        {"resources": "("},
        {"domain_regex": "(?P<User>x)"},
        {"new": 1},
    ],
)
def test_unsupported_key_is_reported_and_restricts_nothing(key: dict[str, Any]) -> None:
    rule = rules_of([{**RULE, **key}])[0]
    assert len(rule.unsupported) == 1
    assert not rule.matches_all
    assert rule.networks == rule.subjects == ()


def test_names_of_networks_are_unfolded_in_both_places_of_the_file() -> None:
    rule = rules_of([{**RULE, "networks": ["lan", "192.0.2.1"]}], networks=[{"name": "lan", "networks": ["10.0.0.0/8"]}])[0]
    assert rule.networks == ("10.0.0.0/8", "192.0.2.1/32")


@pytest.mark.parametrize(
    ("host", "taken"),
    [
        ("a.example.com", (True, True)),
        ("b.example.com", (False, False)),
        ("x.dev.example.com", (True, True)),
        ("*.dev.example.com", (True, True)),
    ],
)
def test_a_wildcard_takes_every_host_below(host: str, taken: tuple[bool, bool]) -> None:
    assert rules_of([{**RULE, "domain": ["a.example.com", "*.dev.example.com"]}])[0].matches_host(host) == taken


def test_an_expression_takes_known_hosts_surely_and_others_possibly() -> None:
    rule = rules_of([{"domain_regex": r"^(a|b)\.example\.com$", "policy": "bypass"}])[0]
    assert [rule.matches_host(host) for host in ("a.example.com", "c.example.com", "*.example.com")] == [
        (True, True),
        (False, False),
        (False, True),
    ]


def test_first_match_decides_for_known_user() -> None:
    rules = rules_of([{**RULE, "policy": "deny", "subject": "group:x"}, {**RULE, "networks": "10.0.0.0/8"}], default_policy="one_factor")

    def decided(**facts: Any) -> int:
        return rules.index(first_match(rules, AutheliaRequest("a.example.com", "/", **facts)))

    assert decided(username="ann", groups=frozenset({"x"})) == 0
    assert decided(username="ann", address="10.1.1.1") == 1
    assert decided(username="ann") == 2
    assert decided() == 0  # anonymous: the user may be in the group
