"""Every criterion of the policy language is documented, with its operators."""

from pathlib import Path

import pytest

from config.routes.policy.criteria import CRITERIA, regular_expression

PAGE = (Path(__file__).parents[5] / "docs" / "reference" / "policy-language.md").read_text()


@pytest.mark.parametrize("name", CRITERIA)
def test_each_criterion_is_documented_with_its_operators(name: str) -> None:
    kind = CRITERIA[name]
    written = f"`{name}/<{kind.argument}>`" if kind.argument else f"`{name}`"
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| {written} |")]
    for operator in kind.operators:
        assert f"`{operator}`" in row or (" text" in row and operator in ("is", "in", "starts_with", "ends_with", "contains", "matches"))


@pytest.mark.parametrize(("expression", "at"), [("a(b", 1), ("ab(?=c)", 3), ("(a)\\1", 4), ("a{2000}", 2)])
def test_expression_rejected_by_re2_is_refused_with_position(expression: str, at: int) -> None:
    with pytest.raises(ValueError, match=f"RE2.*at character {at}\\)"):
        regular_expression(expression)
