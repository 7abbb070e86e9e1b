"""Parameters of OAuth requests: unique, and absent if they have no value."""

import pytest
from authlib.oauth2.rfc6749 import InvalidRequestError, InvalidScopeError

from authenticate.views.oauth.oauth_responses import error_response, unique_params


@pytest.mark.parametrize(
    ("text", "params"),
    [("", {}), ("a=1&b=2", {"a": "1", "b": "2"}), ("a=&b=2", {"b": "2"}), ("a=%C3%BC+x", {"a": "ü x"})],
)
def test_params(text: str, params: dict[str, str]) -> None:
    assert unique_params(text) == params


@pytest.mark.parametrize("text", ["a=1&a=1", "a=1&a=", "a=%ff", "&".join(f"p{number}=x" for number in range(60))])
def test_refused_params(text: str) -> None:
    with pytest.raises(InvalidRequestError):
        unique_params(text)


def test_errors_are_never_cached() -> None:
    response = error_response(InvalidScopeError())
    assert (response.status_code, response.headers["Cache-Control"]) == (400, "no-store")
    assert b'"invalid_scope"' in response.content
