"""SCIM queries: filter, page and attribute selection."""

from typing import Any

import pytest

from authenticate.scim.scim_errors import ScimError
from authenticate.scim.scim_query import MAX_RESULTS, AttributeSelection, ScimQuery
from databroker.store.frozen import frozen_data

CORE = "urn:ietf:params:scim:schemas:core:2.0:User"
OTHER = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"
USER = {
    "schemas": [CORE],
    "id": "1",
    "userName": "ann",
    "name": {"givenName": "A", "familyName": "L"},
    "emails": [{"value": "a@x", "type": "work"}, {"value": "b@x"}, "c@x"],
    OTHER: {"department": "Sales", "division": "D"},
}
ALWAYS = {"schemas": [CORE], "id": "1"}


@pytest.mark.parametrize(
    ("included", "expected"),
    [
        ("", USER),
        ([], USER),
        ("USERNAME", {"userName": "ann"}),
        (["userName", "name"], {"userName": "ann", "name": USER["name"]}),
        ("userName, name.givenName", {"userName": "ann", "name": {"givenName": "A"}}),
        ("name,name.givenName", {"name": USER["name"]}),
        (f"{CORE}:name.familyName", {"name": {"familyName": "L"}}),
        ("emails.type", {"emails": [{"type": "work"}, {}, "c@x"]}),
        (f"{OTHER}:department", {OTHER: {"department": "Sales"}}),
        (CORE, USER),
        ("nothing", {}),
    ],
)
def test_returns_included_attributes(included: Any, expected: dict[str, Any]) -> None:
    assert AttributeSelection.parse({"Attributes": included}).apply(USER) == {**ALWAYS, **expected}


@pytest.mark.parametrize(
    ("excluded", "differs"),
    [
        ("userName", {"userName": None}),
        ("id,schemas", {}),
        (["name.GIVENNAME"], {"name": {"familyName": "L"}}),
        ("emails.value", {"emails": [{"type": "work"}, {}, "c@x"]}),
        (f"{OTHER}:division", {OTHER: {"department": "Sales"}}),
        (f"userName.x,{CORE},nothing.x", {}),
    ],
)
def test_omits_excluded_attributes(excluded: Any, differs: dict[str, Any]) -> None:
    expected = {name: value for name, value in {**USER, **differs}.items() if value is not None}
    assert AttributeSelection.parse({"excludedAttributes": excluded}).apply(frozen_data(USER)) == expected


@pytest.mark.parametrize(
    ("parameters", "start", "count"),
    [
        ({}, 1, 100),
        ({"startIndex": "", "count": None}, 1, 100),
        ({"startIndex": "4", "count": 3}, 4, 3),
        ({"STARTINDEX": -4, "count": "-1"}, 1, 0),
        ({"count": 10_000}, 1, MAX_RESULTS),
    ],
)
def test_a_page_has_bounds(parameters: dict[str, Any], start: int, count: int) -> None:
    query = ScimQuery.parse(parameters)
    assert (query.start, query.count) == (start, count)


@pytest.mark.parametrize(
    "parameters",
    [
        {"count": "x"}, {"count": True}, {"count": 1.5}, {"count": [1]}, {"startIndex": "1" * 11}, {"filter": 5}, {"filter": "x"},
        {"attributes": 5}, {"attributes": [5]}, {"excludedAttributes": {"a": 1}},
    ],
)  # fmt: skip
def test_unreadable_input_is_refused(parameters: dict[str, Any]) -> None:
    with pytest.raises(ScimError) as refused:
        ScimQuery.parse(parameters)
    assert refused.value.status == 400
