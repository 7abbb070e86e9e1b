"""Is a question read as it was meant?"""

import pytest

from authorize.explain.form import Asking


def test_a_question_needs_a_request_or_a_url() -> None:
    assert not Asking({}).is_asked
    assert not Asking({"person": "ann@corp.com"}).is_asked
    assert Asking({"request": " a1 "}).request == "a1"
    assert Asking({"url": "https://a.org"}).is_asked
    with pytest.raises(ValueError, match="request, or a URL"):
        Asking({"person": "ann@corp.com"}).answer(None)
    with pytest.raises(AttributeError):
        _ = Asking().nothing
