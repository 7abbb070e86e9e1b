"""Names of permissions: known, in one order, each once."""

from databroker.permissions import PERMISSIONS, in_order, unknown_permissions


def test_permissions_are_listed_in_order_without_duplicates() -> None:
    assert in_order(["routes:read", "sessions:read", "routes:read"]) == ("sessions:read", "routes:read")
    assert in_order(PERMISSIONS) == tuple(PERMISSIONS)


def test_a_name_that_is_none_is_found() -> None:
    assert unknown_permissions(["sessions:read", "sessions:*", ""]) == ["", "sessions:*"]
