"""Rules of Traefik's routers."""

import pytest

from config.importing.traefik.router_rule import RuleBranch, UnsupportedRule, rule_branches


@pytest.mark.parametrize(
    ("rule", "parts"),
    [
        ("Host(`A.example.com`)", [RuleBranch("a.example.com")]),
        ('Host("a.test", `b.test`)', [RuleBranch("a.test"), RuleBranch("b.test")]),
        ("Host(`a.test`) && PathPrefix(`/x`)", [RuleBranch("a.test", "/x")]),
        ("Host(`a.test`) && Path(`/x`)", [RuleBranch("a.test", "/x", is_prefix=False)]),
        ("(Host(`a.test`) || Host(`b.test`)) && PathPrefix(`/x`)", [RuleBranch("a.test", "/x"), RuleBranch("b.test", "/x")]),
        ("Host(`a.test`) || Host(`b.test`) && PathPrefix(`/x`)", [RuleBranch("a.test"), RuleBranch("b.test", "/x")]),
        ("Host(`a.test`) && !PathPrefix(`/x`)", [RuleBranch("a.test", unsupported=("!",))]),
        ("Host(`a.test`) && Headers(`X-A`, `b`)", [RuleBranch("a.test", unsupported=("Headers",))]),
        ("Host(`a.test`) && PathPrefix(`/{name:[a-z]+}`)", [RuleBranch("a.test", unsupported=("PathPrefix",))]),
        ("HostRegexp(`.+`)", [RuleBranch(unsupported=("HostRegexp",))]),
        ("PathPrefix(`/a`) && PathPrefix(`/b`)", [RuleBranch(path="/a", unsupported=("PathPrefix",))]),
    ],
)
def test_each_alternative_is_a_part(rule: str, parts: list[RuleBranch]) -> None:
    assert rule_branches(rule) == parts


@pytest.mark.parametrize("rule", ["", "Host(`a`", "Host(a)", "(Host(`a`)", "Host(`a`) &&", "Host(`a`) Host(`b`)", "&&", "||", ")"])
def test_invalid_rule_is_refused(rule: str) -> None:
    with pytest.raises(UnsupportedRule):
        rule_branches(rule)


def test_alternatives_are_bounded() -> None:
    many = "(" + " || ".join(f"Host(`h{number}.test`)" for number in range(10)) + ")"
    with pytest.raises(UnsupportedRule):
        rule_branches(" && ".join([many] * 9))
