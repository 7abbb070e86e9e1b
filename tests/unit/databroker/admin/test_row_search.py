"""A search finds users by known attributes, and must match every word."""

import pytest

from databroker.admin import row_search
from databroker.models import ConnectedAccount, Group, Membership, Session, User
from tests.support.database import row


@pytest.fixture(autouse=True)
def people(database: None) -> None:
    row(Group, id="g1", name="Engineering, north")
    row(User, id="oidc/alice", email="alice@a.org", name="Alice Adams")
    row(User, id="oidc/bob", email="bob@a.org", name="Bob Adams")
    row(Membership, user_id="oidc/alice", group_id="g1")
    row(Membership, user_id="oidc/bob", group_id="group-without-a-record")
    row(Session, id="s1", user_id="oidc/alice", client_address="192.0.2.1", last_host="app.a.org")
    row(Session, id="s2", user_id="oidc/bob", client_address="192.0.2.22", last_host="wiki.a.org")
    row(Session, id="s3", user_id="oidc/gone")
    row(Session, id="s4")
    row(Session, id="s5", kind="agent", client_id="https://claude.ai/client.json", resource="https://tools.a.org/mcp")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ["s1", "s2", "s3", "s4", "s5"]),
        ("Claude.AI", ["s5"]),
        ("tools.a.org", ["s5"]),
        ("ALICE@", ["s1"]),
        ("adams", ["s1", "s2"]),
        ("adams app.", ["s1"]),
        ('"Bob Adams"', ["s2"]),
        ("oidc/gone", ["s3"]),
        ("192.0.2.2", ["s2"]),
        ("2.22", []),
        ("s4", ["s4"]),
        ("s-4", []),
        ("%", []),
        ("_", []),
        ("a\x00dams", ["s1", "s2"]),
        ("'", []),
    ],
)
def test_sessions_are_found_by_user_location_and_id(text: str, found: list[str]) -> None:
    assert [session.pk for session in row_search.sessions(Session.objects.order_by("pk"), text)] == found


@pytest.mark.parametrize(
    ("text", "found"),
    [("adams", ["1", "2"]), ("bob@ Tools", ["2"]), ("oidc/gone", ["3"]), ("3", ["3"]), ("code.a.org", ["1", "3"]), ("%", [])],
)
def test_connected_accounts_are_found_by_user_server_and_id(text: str, found: list[str]) -> None:
    for id, user, host in (("1", "alice", "code"), ("2", "bob", "tools"), ("3", "gone", "code")):
        row(ConnectedAccount, id=id, user_id=f"oidc/{user}", resource=f"https://{host}.a.org/mcp")
    assert [each.pk for each in row_search.connected_accounts(ConnectedAccount.objects.order_by("pk"), text)] == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("adams", ["oidc/alice", "oidc/bob"]),
        ("engineering", ["oidc/alice"]),
        ("engineering bob", []),
        ("group-without-a-record", ["oidc/bob"]),
        ("oidc/b", ["oidc/bob"]),
        ("g1", ["oidc/alice"]),
    ],
)
def test_users_are_found_by_name_and_group(text: str, found: list[str]) -> None:
    assert [user.pk for user in row_search.users(User.objects.order_by("pk"), text)] == found


def test_search_uses_a_limited_number_of_terms() -> None:
    terms = " ".join(["adams"] * row_search.MAX_TERMS)
    assert row_search.users(User.objects.all(), f"{terms} nothing").count() == 2


@pytest.mark.parametrize(("few", "looks_at_every_row"), [(0, True), (1, True), (2, False)])
def test_few_rows_that_are_found_are_not_looked_for_again(few: int, looks_at_every_row: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_search, "SMALL_RESULT", few)
    found = row_search.sessions(Session.objects.order_by("pk"), "adams")
    assert ("LIKE" in str(found.query)) is looks_at_every_row
    assert [session.pk for session in found] == ["s1", "s2"]
