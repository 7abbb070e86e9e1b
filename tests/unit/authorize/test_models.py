"""Is a logged decision a sentence?"""

from authorize.models import LoggedDecision


def test_decision_as_text() -> None:
    assert str(LoggedDecision(outcome="forbidden", display_name="bob@corp.com", url="a.org/x")) == "forbidden: bob@corp.com at a.org/x"
    assert str(LoggedDecision(outcome="sign in", url="a.org/x")) == "sign in: nobody at a.org/x"
