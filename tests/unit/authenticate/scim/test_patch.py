"""PATCH in the standard's words and in the dialects of Okta and Entra ID."""

from typing import Any

import pytest

from authenticate.scim.attribute_paths import ENTERPRISE
from authenticate.scim.patch import apply_patch
from authenticate.scim.scim_errors import ScimError
from databroker.store.frozen import frozen_data

CORE = "urn:ietf:params:scim:schemas:core:2.0:User"
USER = {
    "userName": "ann",
    "active": True,
    "name": {"givenName": "Ann"},
    "emails": [{"type": "work", "value": "ann@example.com"}, {"type": "home", "value": "ann@home.example"}],
}
GROUP = {"displayName": "Tour Guides", "members": [{"value": "1"}, {"value": "2"}]}


def after(resource: dict[str, Any], *operations: dict[str, Any]) -> dict[str, Any]:
    return apply_patch(resource, {"Operations": list(operations)})


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ({"op": "replace", "path": "active", "value": False}, {"active": False}),
        ({"op": "Replace", "path": "active", "value": "False"}, {"active": "False"}),
        ({"op": "replace", "value": {"active": False, "id": "other", "schemas": []}}, {"active": False}),
        ({"op": "Add", "value": {"name.familyName": "Lee"}}, {"name": {"givenName": "Ann", "familyName": "Lee"}}),
        ({"op": "Add", "path": "name.familyName", "value": "Lee"}, {"name": {"givenName": "Ann", "familyName": "Lee"}}),
        ({"op": "replace", "path": "NAME.GIVENNAME", "value": "Anna"}, {"name": {"givenName": "Anna"}}),
        ({"op": "replace", "path": "urn:ietf:params:scim:schemas:core:2.0:User:userName", "value": "anna"}, {"userName": "anna"}),
        ({"op": "add", "path": f"{ENTERPRISE}:department", "value": "Sales"}, {ENTERPRISE: {"department": "Sales"}}),
        ({"op": "add", "value": {f"{ENTERPRISE}:department": "Sales"}}, {ENTERPRISE: {"department": "Sales"}}),
        ({"op": "add", "value": {ENTERPRISE.upper(): {"department": "Sales"}}}, {ENTERPRISE: {"department": "Sales"}}),
        ({"op": "replace", "value": {CORE: {"active": False, "title": "x"}}}, {"active": False, "title": "x"}),
        ({"op": "replace", "path": CORE, "value": {"name.familyName": "Lee"}}, {"name": {"givenName": "Ann", "familyName": "Lee"}}),
        ({"op": "add", "path": f"{CORE}:name.familyName", "value": "Lee"}, {"name": {"givenName": "Ann", "familyName": "Lee"}}),
        (
            {"op": "replace", "path": f'{CORE}:emails[type eq "work"].value', "value": "new@example.com"},
            {"emails": [{"type": "work", "value": "new@example.com"}, USER["emails"][1]]},
        ),
        (
            {"op": "Replace", "path": 'emails[type eq "work"].value', "value": "new@example.com"},
            {"emails": [{"type": "work", "value": "new@example.com"}, USER["emails"][1]]},
        ),
        (
            {"op": "Add", "path": 'emails[type eq "other"].value', "value": "new@example.com"},
            {"emails": [*USER["emails"], {"type": "other", "value": "new@example.com"}]},
        ),
        (
            {"op": "replace", "path": 'emails[type eq "home"]', "value": {"value": "x@home.example", "primary": True}},
            {"emails": [USER["emails"][0], {"type": "home", "value": "x@home.example", "primary": True}]},
        ),
        ({"op": "remove", "path": 'emails[type eq "home"]'}, {"emails": [USER["emails"][0]]}),
        ({"op": "remove", "path": 'emails[type eq "home"].value'}, {"emails": [USER["emails"][0], {"type": "home"}]}),
        ({"op": "remove", "path": "name.givenName"}, {"name": {}}),
        ({"op": "remove", "path": "nothing.here"}, {}),
        ({"op": "replace", "path": "id", "value": "other"}, {}),
        ({"op": "remove", "path": "groups"}, {}),
        ({"op": "add", "path": "groups", "value": [{"value": "admins"}]}, {}),
    ],
)
def test_users(operation: dict[str, Any], expected: dict[str, Any]) -> None:
    assert after(USER, operation) == {**USER, **expected}


@pytest.mark.parametrize(
    ("operation", "members"),
    [
        ({"op": "add", "path": "members", "value": [{"value": "3"}]}, ["1", "2", "3"]),
        ({"op": "Add", "path": "members", "value": [{"$ref": None, "value": "2"}, {"value": "3"}]}, ["1", "2", "3"]),
        ({"op": "add", "path": "members", "value": {"value": "3"}}, ["1", "2", "3"]),
        ({"op": "replace", "path": "members", "value": [{"value": "3"}]}, ["3"]),
        ({"op": "remove", "path": 'members[value eq "1"]'}, ["2"]),
        ({"op": "Remove", "path": "members", "value": [{"$ref": None, "value": "1"}]}, ["2"]),
        ({"op": "remove", "path": 'members[value eq "1" or value eq "2"]'}, []),
        ({"op": "remove", "path": 'members[value eq "9"]'}, ["1", "2"]),
        ({"op": "replace", "value": {"displayName": "Guides", "members": [{"value": "3"}]}}, ["3"]),
    ],
)
def test_members(operation: dict[str, Any], members: list[str]) -> None:
    assert [member["value"] for member in after(GROUP, operation)["members"]] == members


def test_removing_members_without_naming_any_empties_the_group() -> None:
    assert "members" not in after(GROUP, {"op": "remove", "path": "members"})


def test_several_operations_are_all_or_none() -> None:
    before = {**USER}
    with pytest.raises(ScimError):
        after(before, {"op": "replace", "path": "userName", "value": "x"}, {"op": "remove"})
    assert before == USER


def test_stored_data_which_can_not_be_changed_are_patched_as_a_copy() -> None:
    stored = frozen_data(USER)
    changed = after(stored, {"op": "replace", "path": 'emails[type eq "work"].value', "value": "new"})
    assert changed["emails"][0]["value"] == "new"
    assert stored == USER


def test_stored_data_is_not_mutated() -> None:
    after(GROUP, {"op": "add", "path": "members", "value": [{"value": "3"}]})
    assert len(GROUP["members"]) == 2


@pytest.mark.parametrize(
    ("operations", "kind"),
    [
        (None, "invalidSyntax"),
        ([], "invalidSyntax"),
        ([{}] * 1001, "invalidSyntax"),
        (["x"], "invalidSyntax"),
        ([{"op": "move"}], "invalidSyntax"),
        ([{"op": ["add"]}], "invalidSyntax"),
        ([{"op": "remove"}], "noTarget"),
        ([{"op": "add", "value": 1}], "invalidValue"),
        ([{"op": "add", "path": CORE, "value": 1}], "invalidValue"),
        ([{"op": "add", "value": {"active": True, "ACTIVE": False}}], "invalidValue"),
        ([{"op": "remove", "path": CORE}], "noTarget"),
        ([{"op": "add", "path": f"{CORE}[active eq true]", "value": 1}], "invalidPath"),
        ([{"op": "add", "path": 5, "value": 1}], "invalidPath"),
        ([{"op": "add", "path": "a[", "value": 1}], "invalidPath"),
        ([{"op": "add", "path": "a..b", "value": 1}], "invalidPath"),
        ([{"op": "add", "path": "a.b.c.d.e", "value": 1}], "invalidPath"),
        ([{"op": "add", "path": "userName.x", "value": 1}], "invalidPath"),
        ([{"op": "replace", "path": "userName[value eq 1].x", "value": 1}], "invalidPath"),
        ([{"op": "replace", "path": 'emails[type co "none"].value', "value": "x"}], "noTarget"),
        ([{"op": "replace", "path": 'emails[type eq "work"]', "value": "x"}], "invalidValue"),
        ([{"op": "replace", "path": "emails[type is 5]", "value": "x"}], "invalidFilter"),
    ],
)
def test_names_failed_operations(operations: Any, kind: str) -> None:
    with pytest.raises(ScimError) as refused:
        apply_patch(USER, {"Operations": operations})
    assert (refused.value.status, refused.value.kind) == (400, kind)
