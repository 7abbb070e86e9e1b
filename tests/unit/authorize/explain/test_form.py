"""Is a question read as it was meant?"""

import pytest

from authorize.explain.form import ExplainForm


def test_a_question_needs_a_request_or_a_url() -> None:
    assert not ExplainForm({}).is_asked
    assert not ExplainForm({"person": "ann@corp.com"}).is_asked
    assert ExplainForm({"request": " a1 "}).request == "a1"
    assert ExplainForm({"url": "https://a.org"}).is_asked
    with pytest.raises(ValueError, match="request, or a URL"):
        ExplainForm({"person": "ann@corp.com"}).answer(None)
    with pytest.raises(AttributeError):
        _ = ExplainForm().nothing
