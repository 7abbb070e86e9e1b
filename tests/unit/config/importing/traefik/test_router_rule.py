"""Rules of Traefik's routers."""

import pytest

from config.importing.traefik.router_rule import RulePart, UnreadableRule, rule_parts


@pytest.mark.parametrize(
    ("rule", "parts"),
    [
        ("Host(`A.example.com`)", [RulePart("a.example.com")]),
        ('Host("a.test", `b.test`)', [RulePart("a.test"), RulePart("b.test")]),
        ("Host(`a.test`) && PathPrefix(`/x`)", [RulePart("a.test", "/x")]),
        ("Host(`a.test`) && Path(`/x`)", [RulePart("a.test", "/x", is_prefix=False)]),
        ("(Host(`a.test`) || Host(`b.test`)) && PathPrefix(`/x`)", [RulePart("a.test", "/x"), RulePart("b.test", "/x")]),
        ("Host(`a.test`) || Host(`b.test`) && PathPrefix(`/x`)", [RulePart("a.test"), RulePart("b.test", "/x")]),
        ("Host(`a.test`) && !PathPrefix(`/x`)", [RulePart("a.test", unread=("!",))]),
        ("Host(`a.test`) && Headers(`X-A`, `b`)", [RulePart("a.test", unread=("Headers",))]),
        ("Host(`a.test`) && PathPrefix(`/{name:[a-z]+}`)", [RulePart("a.test", unread=("PathPrefix",))]),
        ("HostRegexp(`.+`)", [RulePart(unread=("HostRegexp",))]),
        ("PathPrefix(`/a`) && PathPrefix(`/b`)", [RulePart(path="/a", unread=("PathPrefix",))]),
    ],
)
def test_each_alternative_is_a_part(rule: str, parts: list[RulePart]) -> None:
    assert rule_parts(rule) == parts


@pytest.mark.parametrize("rule", ["", "Host(`a`", "Host(a)", "(Host(`a`)", "Host(`a`) &&", "Host(`a`) Host(`b`)", "&&", "||", ")"])
def test_what_is_no_rule_is_refused(rule: str) -> None:
    with pytest.raises(UnreadableRule):
        rule_parts(rule)


def test_alternatives_are_bounded() -> None:
    many = "(" + " || ".join(f"Host(`h{number}.test`)" for number in range(10)) + ")"
    with pytest.raises(UnreadableRule):
        rule_parts(" && ".join([many] * 9))
