"""SCIM resources: parsing into the stored form, and rendering."""

from typing import Any

import pytest

from authenticate.scim.resources import get_display_name, get_email, parse_group, parse_user
from authenticate.scim.scim_errors import ScimError


def test_normalizes_names_and_drops_secrets() -> None:
    user = parse_user(
        {"USERNAME": "ann", "externalid": "1", "Password": "secret", "id": "x", "meta": {}, "groups": [], "title": None, "x": 1}
    )
    assert user == {"userName": "ann", "externalId": "1", "active": True, "x": 1}


@pytest.mark.parametrize(("written", "active"), [(True, True), (False, False), ("False", False), ("true", True)])
def test_accepts_boolean_text(written: Any, active: bool) -> None:
    assert parse_user({"userName": "ann", "active": written})["active"] is active


@pytest.mark.parametrize(
    "document",
    [
        {}, {"userName": ""}, {"userName": " "}, {"userName": None}, {"userName": 5}, {"userName": "a" * 256}, {"userName": "a\nb"},
        {"userName": "a", "active": "no"}, {"userName": "a", "active": 0}, {"userName": "a", "externalId": ["x"]},
        {"userName": "a", "username": "b"}, {"userName": "a", "externalId": "a\x00"},
    ],
)  # fmt: skip
def test_malformed_user_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(ScimError) as refused:
        parse_user(document)
    assert (refused.value.status, refused.value.kind) == (400, "invalidValue")


def test_a_user_has_a_bound() -> None:
    with pytest.raises(ScimError) as refused:
        parse_user({"userName": "a", "title": "x" * 70_000})
    assert refused.value.status == 413


@pytest.mark.parametrize("members", ["1", {"value": "1"}, [{"value": 1}], [{}], ["1"], [{"value": ""}]])
def test_malformed_members_are_refused(members: Any) -> None:
    with pytest.raises(ScimError):
        parse_group({"displayName": "a", "members": members})


def test_a_member_counts_once() -> None:
    assert parse_group({"displayName": "a", "members": [{"value": "1"}, {"VALUE": "1"}, {"value": "2"}]}) == (
        {"displayName": "a"},
        ("1", "2"),
    )


def test_a_group_has_a_bound() -> None:
    with pytest.raises(ScimError) as refused:
        parse_group({"displayName": "a", "members": [{"value": str(number)} for number in range(50_001)]})
    assert refused.value.status == 413


@pytest.mark.parametrize(
    ("user", "email"),
    [
        ({"emails": [{"value": "a@x"}, {"value": "b@x", "primary": True}]}, "b@x"),
        ({"emails": [{"value": "a@x"}, {"value": "b@x", "primary": "True"}]}, "b@x"),
        ({"emails": [{"value": "a@x"}]}, "a@x"),
        ({"emails": "a@x"}, ""),
        ({"emails": [5, {"value": None}]}, ""),
        ({"userName": "ann@example.com"}, "ann@example.com"),
    ],
)
def test_the_address_is_the_primary_one(user: dict[str, Any], email: str) -> None:
    assert get_email({"userName": "ann", **user}) == email


@pytest.mark.parametrize(
    ("user", "name"),
    [
        ({"displayName": "Ann Lee"}, "Ann Lee"),
        ({"name": {"formatted": "A. Lee"}}, "A. Lee"),
        ({"name": {"givenName": "Ann", "familyName": "Lee"}}, "Ann Lee"),
        ({"name": "x"}, "ann"),
    ],
)
def test_display_name(user: dict[str, Any], name: str) -> None:
    assert get_display_name({"userName": "ann", **user}) == name
