"""Names of attributes, in every spelling that clients use."""

from typing import Any

import pytest

from authenticate.scim.attribute_paths import ENTERPRISE, USER, find_key, get_values, iter_attributes, normalize_value, parse_path
from authenticate.scim.scim_errors import ScimError


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("userName", ("userName",)),
        ("name.givenName", ("name", "givenName")),
        ("urn:ietf:params:scim:schemas:core:2.0:User:name.givenName", ("name", "givenName")),
        ("URN:ietf:params:scim:schemas:core:2.0:Group:displayName", ("displayName",)),
        (ENTERPRISE, (ENTERPRISE,)),
        (f"{ENTERPRISE}:manager.value", (ENTERPRISE, "manager", "value")),
        (f"{ENTERPRISE.upper()}:DEPARTMENT", (ENTERPRISE, "DEPARTMENT")),
        (USER, ()),
        (USER.upper(), ()),
        ("urn:acme:hr:1.10:Person", ("urn:acme:hr:1.10:Person",)),
        ("urn:acme:hr:1.10:Person:badge.no", ("urn:acme:hr:1.10:Person", "badge", "no")),
        ("urn:acme:badge.no", ("urn:acme:badge.no",)),
    ],
)
def test_a_name_is_a_path(name: str, path: tuple[str, ...]) -> None:
    assert parse_path(name) == path


@pytest.mark.parametrize(
    "document",
    [
        {"active": False, "title": "x"},
        {USER: {"active": False, "title": "x"}},
        {"title": "x", USER.upper(): {"active": False}},
        {f"{USER}:active": False, "title": "x"},
        {USER: {USER: {"active": False}, "title": "x"}},
        {USER: {f"{USER}:active": False}, "title": "x"},
    ],
)
def test_core_schema_object_belongs_to_the_resource(document: dict[str, Any]) -> None:
    assert dict(iter_attributes(document)) == {"active": False, "title": "x"}


@pytest.mark.parametrize(
    "document",
    [
        {"active": True, "Active": False},
        {"active": True, USER: {"active": False}},
        {f"{USER}:active": 1, "active": 1},
        {USER: 1},
        {USER: []},
    ],
)
def test_refuses_duplicate_and_malformed_attributes(document: dict[str, Any]) -> None:
    with pytest.raises(ScimError):
        list(iter_attributes(document))


def test_values_of_a_list_are_those_of_its_elements() -> None:
    emails = [{"Value": "a"}, {"value": "b"}, {}, "x"]
    assert get_values({"emails": emails}, ("EMAILS", "value")) == ["a", "b"]
    assert get_values({"name": "x"}, ("name", "givenName")) == []


def test_case_counts_in_ids_only() -> None:
    assert normalize_value(("externalId",), "Ab") == "Ab"
    assert normalize_value(("members", "value"), "Ab") == "Ab"
    assert normalize_value(("userName",), "Ab") == "ab"
    assert normalize_value(("active",), True) is True


def test_a_key_is_found_in_any_case() -> None:
    assert find_key({"userName": 1}, "username") == "userName"
    assert find_key({}, "userName") == "userName"
