"""Audit texts of pushed changes; "" if nothing changed."""

from typing import Any

import pytest

from authenticate.scim.audit_text import action, describe_object
from databroker.records import SCIM_GROUP, SCIM_USER, Record


def user(*, subject: str = "id-of-ann", **resource: Any) -> Record:
    return Record(
        SCIM_USER, "1", {"resource": {"userName": "ann@example.com", "active": True, **resource}, "subject": subject, "groups": {}}, 1, 1.0
    )


def group(*members: str, name: str = "Sales") -> Record:
    return Record(SCIM_GROUP, "2", {"resource": {"displayName": name}, "members": list(members), "directory_id": "g-1"}, 1, 1.0)


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (None, user(), "created the user"),
        (None, user(active=False), "created the user, deactivated"),
        (user(), user(), ""),
        (user(), user(title="CEO"), "changed the user"),
        (user(), user(active=False, title="CEO"), "deactivated the user"),
        (user(active=False), user(), "activated the user"),
        (user(), user(subject="id-of-bob"), "assigned the user to another subject"),
        (user(), None, "deleted the user"),
        (None, group("a", "b"), "created the group, with 2 members"),
        (group("a", "b"), group("b", "a"), ""),
        (group("a", "b"), group("b", "c", "d"), "changed the group: 2 joined, 1 left"),
        (group("a"), group("a", name="Guides"), "changed the group: changed name or id"),
        (group("a"), None, "deleted the group, with 1 members"),
        (None, None, ""),
    ],
)
def test_change_has_an_audit_text(before: Record | None, after: Record | None, text: str) -> None:
    assert action(before, after) == text


def test_objects_are_named_as_in_the_admin() -> None:
    assert describe_object(user(displayName="Ann"), "okta") == ("okta/id-of-ann", "Ann (ann@example.com)")
    assert describe_object(group(), "okta") == ("g-1", "Sales")
