"""All operations: each asks for a permission that can be given, and each permission is asked for."""

from authenticate.api.operation_registry import OPERATIONS
from databroker.permissions import PERMISSIONS


def test_every_permission_is_of_use_and_every_operation_needs_one() -> None:
    assert {operation.permission for operation in OPERATIONS} == set(PERMISSIONS)


def test_names_and_places_stand_once() -> None:
    assert len({operation.name for operation in OPERATIONS}) == len(OPERATIONS)
    assert len({(operation.method, operation.path) for operation in OPERATIONS}) == len(OPERATIONS)


def test_read_permission_changes_nothing() -> None:
    assert {operation.permission.endswith(":read") for operation in OPERATIONS if operation.method == "GET"} == {True}
    assert {operation.permission.endswith(":read") for operation in OPERATIONS if operation.method != "GET"} == {False}
