"""Declarations find whose path it is, and ids only where they have the form of one."""

import pytest

from authenticate.api.api_operation import match_operations
from authenticate.api.operation_registry import OPERATIONS


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("sessions", [("list_sessions", "")]),
        ("sessions/aB_-9", [("get_session", "aB_-9"), ("end_session", "aB_-9")]),
        ("sessions/", []),
        ("sessions/a/b", []),
        ("sessions/ä", []),
        ("sessions/a\n", []),
        ("sessions/" + "a" * 129, []),
        ("Sessions", []),
        ("/sessions", []),
        ("sessions/x/approve", []),
        (f"requests/{'a' * 24}-{'b' * 24}-0.{'c' * 32}/approve", [("approve_request", f"{'a' * 24}-{'b' * 24}-0.{'c' * 32}")]),
        ("requests//approve", []),
        ("requests/approve", []),
        ("service_accounts/-a", []),
    ],
)
def test_a_path_is_one_lists_or_one_things(path: str, found: list[tuple[str, str]]) -> None:
    assert [(operation.name, id) for operation, id in match_operations(path, OPERATIONS)] == found


def test_success_statuses() -> None:
    statuses = {operation.name: operation.status for operation in OPERATIONS}
    assert (statuses["create_service_account"], statuses["end_session"], statuses["list_sessions"]) == (201, 204, 200)
