"""API requests: unknown, duplicate and malformed input is refused and named."""

import pytest

from authenticate.api.api_problems import ApiProblem
from authenticate.api.operation_registry import OPERATIONS
from authenticate.api.request_parsing import MAX_BODY_BYTES, MAX_QUERY_PARAMS, allowed_methods, find_operation, parse_body, parse_query

BY_NAME = {operation.name: operation for operation in OPERATIONS}
LIST, END, END_ALL = BY_NAME["list_sessions"], BY_NAME["end_session"], BY_NAME["end_user_sessions"]


def refused(query: str) -> list[tuple[str, str]]:
    with pytest.raises(ApiProblem) as caught:
        parse_query(LIST, query)
    assert caught.value.status == 400
    return [(each["name"], each["reason"]) for each in caught.value.members["errors"]]


def refused_body(content: bytes, content_type: str = "application/json", operation: object = END_ALL) -> ApiProblem:
    with pytest.raises(ApiProblem) as caught:
        parse_body(operation, content_type, content)  # type: ignore[arg-type]
    return caught.value


def test_a_query_is_read() -> None:
    query = parse_query(LIST, "limit=7&user_id=oidc%2Falice&q=a+b")
    assert (query.limit, query.user_id, query.q, query.cursor) == (7, "oidc/alice", "a b", None)
    assert parse_query(LIST, "").limit == 50


def test_unknown_query_parameter_is_named() -> None:
    assert refused("colour=red") == [("colour", "unknown key")]
    assert refused("limit=1&limit=2") == [("limit", "occurs twice")]
    assert refused("Limit=1") == [("Limit", "unknown key")]
    assert refused("q=") == [("q", "String should have at least 1 character")]


@pytest.mark.parametrize("query", ["q", "&", "q=%ff", "q=%ed%a0%80", "&".join(f"a{n}=1" for n in range(MAX_QUERY_PARAMS + 1))])
def test_malformed_query_is_refused(query: str) -> None:
    ((name, reason),) = refused(query)
    assert name == ""
    assert "key=value, in UTF-8" in reason


@pytest.mark.parametrize("query", ["q=a%00b", "user_id=%0d%0aX:1", "q=%7f"])
def test_control_characters_are_refused(query: str) -> None:
    assert len(refused(query)) == 1


def test_a_body_is_one_json_object() -> None:
    assert parse_body(END_ALL, "application/json; charset=utf-8", b'{"user_id": "oidc/alice"}').user_id == "oidc/alice"
    for content in (b"", b"[]", b"null", b"{", b'{"user_id": "a", "user_id": "b"}', b'{"user_id": NaN}', b"\xff", b"[" * 9000):
        assert refused_body(content).status == 400
    assert refused_body(b'{"user_id": "a"}', "text/plain").status == 415
    assert refused_body(b'{"user_id": "a"}', "").status == 415
    assert refused_body(b" " * (MAX_BODY_BYTES + 1)).status == 413


@pytest.mark.parametrize(
    "content", [b"{}", b'{"user_id": 7}', b'{"user_id": null}', b'{"user_id": "a", "x": 1}', b'{"user_id": "a\\u0000"}']
)
def test_body_has_required_fields_and_no_others(content: bytes) -> None:
    problem = refused_body(content)
    assert problem.status == 400
    assert problem.members["errors"][0]["in"] == "body"


def test_refuses_unexpected_body() -> None:
    assert parse_body(END, "", b"") is None
    assert refused_body(b"{}", "application/json", END).status == 400


def test_allow_lists_methods() -> None:
    assert find_operation("HEAD", "sessions")[0] is LIST
    with pytest.raises(ApiProblem) as caught:
        find_operation("PUT", "sessions/x")
    assert (caught.value.status, caught.value.headers) == (405, {"Allow": "DELETE, GET, HEAD, OPTIONS"})
    with pytest.raises(ApiProblem) as caught:
        find_operation("HEAD", "end_sessions")
    assert (caught.value.status, caught.value.headers) == (405, {"Allow": "OPTIONS, POST"})
    with pytest.raises(ApiProblem) as caught:
        find_operation("GET", "nothing")
    assert caught.value.status == 404
    assert allowed_methods("nothing") == ""
