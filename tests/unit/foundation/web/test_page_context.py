"""A view finds its page context in the scope, and gets KeyError without one."""

from types import SimpleNamespace

import pytest

from foundation.web.page_context import request_context


def test_a_view_finds_the_page_context_of_its_request() -> None:
    context = object()
    assert request_context(SimpleNamespace(scope={"gate": context})) is context
    with pytest.raises(KeyError):
        request_context(SimpleNamespace(scope={}))
