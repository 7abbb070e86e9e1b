"""Rows contain the data of their records, and no other data."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from authorize.upstream.account_connections import AccountConnection
from databroker.claims import GroupsClaim, ProviderClaims
from databroker.models import MAX_ID_LENGTH, ConnectedAccount, DirectoryRun, Group, Membership, ServiceAccount, Session, User
from databroker.projection.projection import TYPES, add_rows
from databroker.projection.rows import (
    BATCH_SIZE,
    RowBatch,
    add_connected_account,
    add_group,
    add_service_account,
    add_session,
    add_user,
    find_differences,
    ids_after,
    to_datetime,
    write,
    write_last_seen,
)
from databroker.records import DIRECTORY_GROUP, DIRECTORY_USER, SERVICE_ACCOUNT, SESSION, UPSTREAM_CONNECTION, USER, Record
from foundation.errors import BrokerError
from tests.support.database import row
from tests.support.options import make_options
from tests.support.several_providers import several

NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)


def record(type: str, **data: object) -> Record:
    return Record(type, "oidc/1", data, version=1, modified=0.0)


@pytest.mark.parametrize(
    ("user", "directory_user", "email", "name"),
    [
        ({"email": "new@a.org", "name": "New"}, {"email": "old@a.org", "name": "Old"}, "new@a.org", "New"),
        ({"email": "", "name": ""}, {"email": "old@a.org", "name": "Old"}, "old@a.org", "Old"),
        (None, {"email": "old@a.org", "name": "Old"}, "old@a.org", "Old"),
        ({"email": "new@a.org"}, None, "new@a.org", ""),
        ({"email": "new@a.org", "issuer": "https://a"}, {"name": "Old", "issuer": "https://a"}, "new@a.org", "Old"),
        ({"email": "new@a.org", "issuer": "https://a"}, {"name": "Old"}, "new@a.org", "Old"),
        ({"email": "new@a.org"}, {"name": "Old", "issuer": "https://a"}, "new@a.org", "Old"),
        ({"email": "new@a.org", "issuer": "https://b"}, {"name": "Old", "issuer": "https://a"}, "new@a.org", ""),
        ({"email": "new@a.org", "claims": {"iss": "https://b"}}, {"name": "Old", "issuer": "https://a"}, "new@a.org", ""),
        ({"email": "new@a.org", "claims": 7, "issuer": 7}, {"name": "Old", "issuer": 7}, "new@a.org", "Old"),
    ],
)
def test_user_is_described_by_both_records(user, directory_user, email, name):
    rows = RowBatch()
    add_user(
        rows,
        "oidc/1",
        record(USER, **user) if user is not None else None,
        record(DIRECTORY_USER, **directory_user) if directory_user is not None else None,
    )
    row = rows.upserts[0]
    assert (row.id, row.email, row.name) == ("oidc/1", email, name)


@pytest.mark.parametrize("seconds", [1e300, float("inf"), float("nan"), -1, "noon", None, 253_402_300_800])
def test_invalid_time_is_none(seconds):
    assert to_datetime(seconds) is None


def test_name_unsupported_by_database_does_not_block_others(database):
    rows = RowBatch()
    add_user(rows, "oidc/1", record(USER, name="a\0b\ud800c"), record(DIRECTORY_USER, group_ids=["g\0"]))
    write(rows)
    assert User.objects.get().name == "ab?c"
    assert list(User.objects.get().groups.through.objects.values_list("group_id", flat=True)) == ["g"]


def test_unchanged_rows_are_not_written_again(database):
    def batch(name: str) -> RowBatch:
        rows = RowBatch()
        add_user(rows, "oidc/1", record(USER, name=name), record(DIRECTORY_USER, group_ids=["g1", "g2"]))
        add_group(rows, "g1", record(USER, name="group"))
        add_session(rows, "s", record(USER, user_id="oidc/1", issued=NOON.timestamp()))
        return rows

    def written(rows: RowBatch) -> list[str]:
        with CaptureQueriesContext(connection) as queries:
            write(rows)
        return [each["sql"].split()[0] for each in queries if each["sql"].split()[0] in ("INSERT", "UPDATE", "DELETE", "BEGIN")]

    assert written(batch("Ann"))
    assert written(batch("Ann")) == []
    assert written(batch("Anna")).count("INSERT") == 1


def test_missing_record_has_no_row():
    rows = RowBatch()
    for model, id in (gone := [(Session, "s"), (User, "u"), (Group, "g"), (ServiceAccount, "a"), (DirectoryRun, "r")]):
        add_rows(rows, model, id, *(None for _ in TYPES[model]))
    assert (rows.upserts, rows.deletes) == ([], gone)


CLAIM = ProviderClaims((GroupsClaim("groups", "oidc", "https://idp.example.com"),))


@pytest.mark.parametrize(
    ("claim", "members"),
    [(None, [("a", True, False), ("b", True, False)]), (CLAIM, [("a", True, False), ("b", True, True), ("c", False, True)])],
    ids=["no claim counts", "a claim counts"],
)
def test_members_come_from_directory_and_claim(claim, members):
    rows = RowBatch(claim)
    data = {"group_ids": ["admins"], "issuer": "https://idp.example.com", "claims": {"groups": ["c", "b", "x" * (MAX_ID_LENGTH + 1)]}}
    add_user(rows, "oidc/1", record(USER, **data), record(DIRECTORY_USER, group_ids=["b", "a", "b"]))
    assert [(member.group_id, member.from_directory, member.from_claim) for member in rows.members] == members


def several_of(tmp_path: Path) -> ProviderClaims:
    return ProviderClaims.from_options(make_options(tmp_path, **several("corp", "partner")))


@pytest.mark.parametrize(
    ("user", "directory_user", "addresses"),
    [
        ({"email": "ann@partner.example"}, None, ("ann@partner.example", "")),
        ({"email": "Ann@Partner.Example"}, None, ("Ann@Partner.Example", "")),
        ({"email": "ceo@corp.example"}, None, ("", "ceo@corp.example")),
        (None, {"email": "ceo@corp.example"}, ("", "ceo@corp.example")),
        ({"email": "ceo@corp.example"}, {"email": "ann@partner.example"}, ("ann@partner.example", "ceo@corp.example")),
        ({"email": "ann@partner.example", "email_verified": True}, None, ("ann@partner.example", "")),
        ({"email": "ann@partner.example", "email_verified": False}, None, ("", "ann@partner.example")),
        ({"email": "ann@partner.example", "claims": {"email_verified": "false"}}, None, ("", "ann@partner.example")),
        # A directory that lists data from the users themselves verifies nothing.
        ({"email": "Ann@partner.example", "email_verified": False}, {"email": "ann@Partner.example"}, ("", "Ann@partner.example")),
        (
            {"email": "boss@partner.example", "email_verified": False},
            {"email": "a@partner.example"},
            ("a@partner.example", "boss@partner.example"),
        ),
        # Longer than the column: truncated, it would be another address than the provider's.
        ({"email": f"{'a' * 239}@partner.example.evil.example"}, None, ("", f"{'a' * 239}@partner.example")),
        ({"email": f"{'a' * 240}@partner.example"}, None, ("", f"{'a' * 240}@partner.exampl")),
        ({"email": 7}, None, ("", "7")),
        ({}, None, ("", "")),
    ],
)
def test_address_of_unauthorized_provider_is_separate(tmp_path, user, directory_user, addresses):
    rows = RowBatch(several_of(tmp_path))
    records = (None if values is None else record(type, **values) for type, values in ((USER, user), (DIRECTORY_USER, directory_user)))
    add_user(rows, "partner/1", *records)
    assert (rows.upserts[0].email, rows.upserts[0].unauthoritative_email) == addresses


@pytest.mark.parametrize(
    ("name", "displayed"),
    [
        ("Ann", "Ann"),
        ("ceo@corp.example", ""),
        ("ceo\uff20corp.example", ""),
        ("CEO <ceo@corp.example>", ""),
        ("a@partner.example", ""),
        ("Ann (corp/ceo)", ""),
    ],
)
def test_no_name_passes_for_address_of_unauthorized_provider(tmp_path, name, displayed):
    rows = RowBatch(several_of(tmp_path))
    add_user(rows, "partner/1", record(USER, name=name), None)
    assert (rows.upserts[0].name, str(rows.upserts[0])) == (displayed, f"{displayed} (partner/1)" if displayed else "partner/1")


def test_address_of_unconfigured_provider_is_not_reported(tmp_path):
    rows = RowBatch(several_of(tmp_path))
    add_user(rows, "gone/1", record(USER, email="ceo@corp.example"), None)
    assert (rows.upserts[0].email, rows.upserts[0].unauthoritative_email, str(rows.upserts[0])) == ("", "ceo@corp.example", "gone/1")


def test_a_group_of_one_of_several_directories_is_another_one_than_that_of_a_claim():
    claims = ProviderClaims((GroupsClaim("roles", "corp", "https://corp.example", "corp/"), GroupsClaim("", "partner", "", "partner/")))
    rows = RowBatch(claims)
    data = {"issuer": "https://corp.example", "claims": {"roles": ["g"]}}
    add_user(rows, "corp/1", record(USER, **data), record(DIRECTORY_USER, group_ids=["g"], issuer="https://corp.example"))
    add_user(rows, "partner/1", None, record(DIRECTORY_USER, group_ids=["g"]))
    assert [(member.user_id, member.group_id, member.from_claim) for member in rows.members] == [
        ("corp/1", "corp/g", False),
        ("corp/1", "g", True),
        ("partner/1", "partner/g", False),
    ]


def wrote(rows: RowBatch) -> list[tuple[str, str, bool, bool]]:
    """The groups after a write, which finds nothing wrong then."""
    write(rows)
    assert find_differences(rows) == set()
    write(rows)
    return list(Group.objects.order_by("pk").values_list("pk", "name", "in_directory", "from_claim"))


def user_rows(id: str, *claimed: str, listed: tuple[str, ...] = ()) -> RowBatch:
    rows = RowBatch(CLAIM)
    user = record(USER, issuer="https://idp.example.com", claims={"groups": claimed})
    add_user(rows, id, user if claimed else None, record(DIRECTORY_USER, group_ids=listed))
    return rows


def group(id: str, name: str | None) -> RowBatch:
    rows = RowBatch(CLAIM)
    add_rows(rows, Group, id, record(DIRECTORY_GROUP, name=name) if name is not None else None)
    return rows


@pytest.mark.usefixtures("database")
def test_a_group_has_a_row_while_a_record_or_a_claim_names_it():
    named = ("g", "", False, True)
    assert wrote(user_rows("oidc/1", "g")) == [named]
    assert wrote(user_rows("oidc/2", "g", listed=("g",))) == [named]
    assert wrote(user_rows("oidc/1")) == [named]
    assert wrote(group("g", "team")) == [("g", "team", True, True)]
    assert wrote(user_rows("oidc/2", listed=("g",))) == [("g", "team", True, False)]
    assert wrote(user_rows("oidc/2", "g")) == [("g", "team", True, True)]
    assert wrote(group("g", None)) == [named]
    gone = RowBatch(CLAIM)
    add_rows(gone, User, "oidc/2", None, None)
    assert wrote(gone) == []
    assert not Membership.objects.exists()


@pytest.mark.usefixtures("database")
def test_group_row_is_repaired_by_next_write():
    """Another process may have removed the row, while the group had no members for a moment."""
    wrote(user_rows("oidc/1", "g"))
    Group.rows.all().delete()
    assert find_differences(user_rows("oidc/1", "g")) == {(Group, "g")} == find_differences(group("g", None))
    assert wrote(user_rows("oidc/1", "g")) == [("g", "", False, True)]
    Group.rows.update(from_claim=False)
    assert find_differences(group("g", None)) == {(Group, "g")}
    assert wrote(group("g", None)) == [("g", "", False, True)]
    row(Group, id="nobody's", from_claim=True, in_directory=False)
    assert ids_after(Group, "", 10) == ["nobody's"]
    assert wrote(group("nobody's", None)) == [("g", "", False, True)]


@pytest.mark.usefixtures("database")
def test_session_of_an_agent_has_its_client():
    agent = {"client_id": "build-agent", "resource": "https://mcp.example.com", "scopes": ["read", "write"]}
    rows = RowBatch()
    for id, data in (("s1", {"agent": agent}), ("s2", {}), ("s3", {"agent": {"client_id": "a" * 600}})):
        add_session(rows, id, Record(SESSION, id, {"user_id": "oidc/1", **data}, 1, 0.0))
    write(rows)
    assert list(Session.objects.order_by("pk").values_list("kind", "client_id", "resource", "scopes")) == [
        ("agent", "build-agent", "https://mcp.example.com", "read write"),
        ("browser", "", "", ""),
        ("agent", "a" * 512, "", ""),
    ]


@pytest.mark.usefixtures("database")
def test_when_a_session_was_last_seen_is_written_to_its_row_and_makes_none():
    Session.rows.bulk_create([Session(id="s1", client_address="192.0.2.1"), Session(id="s2", last_host="kept")])
    missing = write_last_seen({"s1": (NOON.timestamp(), "x" * 300), "gone": (NOON.timestamp(), "a.org")})
    assert missing == {"gone"}
    assert list(Session.objects.order_by("pk").values_list("pk", "last_seen_at", "last_host", "client_address")) == [
        ("s1", NOON, "x" * 255, "192.0.2.1"),
        ("s2", None, "kept", ""),
    ]


@pytest.mark.usefixtures("database")
def test_a_moment_that_another_process_saw_later_stays():
    Session.rows.bulk_create([Session(id="s1", last_seen_at=NOON, last_host="later.org"), Session(id="s2")])
    assert write_last_seen({"s1": (NOON.timestamp() - 1, "a.org"), "s2": (NOON.timestamp(), "a.org")}) == set()
    assert list(Session.objects.order_by("pk").values_list("last_seen_at", "last_host")) == [(NOON, "later.org"), (NOON, "a.org")]
    write_last_seen({"s1": (NOON.timestamp() + 1, "newest.org")})
    assert Session.objects.get(pk="s1").last_host == "newest.org"


@pytest.mark.usefixtures("database")
def test_when_is_written_to_the_second_of_which_the_last_host_counts():
    Session.rows.bulk_create([Session(id="s1")])
    for part, host in ((0.2, "a.org"), (0.9, "b.org")):
        write_last_seen({"s1": (NOON.timestamp() + part, host)})
    assert list(Session.objects.values_list("last_seen_at", "last_host")) == [(NOON, "b.org")]


@pytest.mark.usefixtures("database")
def test_many_sessions_are_written_in_short_transactions():
    ids = [f"{number:05}" for number in range(2 * BATCH_SIZE + 1)]
    Session.rows.bulk_create([Session(id=id) for id in ids[1:]])
    assert write_last_seen({id: (NOON.timestamp(), "a.org") for id in ids}) == {"00000"}
    assert Session.objects.filter(last_seen_at=NOON, last_host="a.org").count() == 2 * BATCH_SIZE


@pytest.mark.usefixtures("database")
def test_a_session_that_is_refreshed_keeps_when_it_was_last_seen():
    refreshed = Record("session", "s", {"user_id": "oidc/1", "user_agent": "new"}, version=2, modified=0.0)
    row(Session, id="s", last_seen_at=NOON, last_host="a.org", user_agent="old")
    batch = RowBatch()
    add_session(batch, "s", refreshed)
    write(batch)
    assert list(Session.objects.values_list("user_agent", "last_seen_at", "last_host")) == [("new", NOON, "a.org")]


@pytest.mark.usefixtures("database")
def test_a_database_in_trouble_is_the_brokers_trouble():
    def rename(before: str, after: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE {before} RENAME TO {after}")

    rename("databroker_session", "away")
    try:
        with pytest.raises(BrokerError):
            write_last_seen({"s": (NOON.timestamp(), "a.org")})
    finally:
        rename("away", "databroker_session")


def test_a_service_account_has_a_row_without_its_secret_and_is_seen_under_its_own_id(database):
    facts = {"groups": ["a", "b"], "created_at": NOON.timestamp(), "created_by": "ann", "expires_at": 2e9, "secret_hash": "5ec3e7"}
    rows = RowBatch()
    add_service_account(rows, "ci", record(SERVICE_ACCOUNT, **facts))
    write(rows)
    (account,) = ServiceAccount.objects.values()
    assert (account["id"], account["groups"], account["created_at"], account["created_by"]) == ("ci", "a, b", NOON, "ann")
    assert "5ec3e7" not in str(account)
    row(Session, id="ci")
    assert write_last_seen({"service_account/ci": (NOON.timestamp(), "app"), "service_account/no": (1.0, "app"), "x": (1.0, "app")}) == {
        "service_account/no",
        "x",
    }
    assert ServiceAccount.objects.get().last_seen_at == NOON
    assert Session.objects.get().last_seen_at is None
    write(rows)
    assert ServiceAccount.objects.get().last_host == "app"
    write(RowBatch(deletes=[(ServiceAccount, "ci")]))
    assert not ServiceAccount.objects.exists()


def test_a_connected_account_has_a_row_without_its_tokens(database):
    connection = AccountConnection("oidc/alice", "", "https://code.example.com/mcp", "f" * 64, NOON.timestamp(), 2e9, "acc3ss", "r3fresh")
    rows = RowBatch()
    add_connected_account(rows, "k/1", record(UPSTREAM_CONNECTION, **connection.to_data()))
    add_connected_account(rows, "k/2", record(UPSTREAM_CONNECTION, **replace(connection, refused_at=NOON.timestamp()).to_data()))
    write(rows)
    first, refused = ConnectedAccount.objects.order_by("pk").values()
    assert (first["user_id"], first["resource"], first["connected_at"], first["usable_until"]) == (
        "oidc/alice",
        "https://code.example.com/mcp",
        NOON,
        None,
    )
    assert refused["usable_until"] == NOON
    assert not any(secret in str(first) for secret in ("acc3ss", "r3fresh"))


@pytest.mark.parametrize("model", [Group, User, Membership, Session, ServiceAccount, DirectoryRun, ConnectedAccount])
@pytest.mark.parametrize(
    "change",
    [
        lambda model: model().save(),
        lambda model: model(pk=1).delete(),
        lambda model: model.objects.create(),
        lambda model: model.objects.get_or_create(pk=7),
        lambda model: model.objects.update_or_create(pk=7),
        lambda model: model.objects.bulk_create([model()]),
        lambda model: model.objects.bulk_update([model(pk=7)], ["id"]),
        lambda model: model.objects.all().delete(),
        lambda model: model.objects.filter(pk=7).update(pk=8),
    ],
    ids=["save", "delete", "create", "get_or_create", "update_or_create", "bulk_create", "bulk_update", "delete all", "update"],
)
def test_row_editor_is_notified_of_record_change(database, model, change):
    with pytest.raises(TypeError, match="is a copy of "):
        change(model)


def test_related_rows_are_no_way_round(database):
    user, group = row(User, id="oidc/1"), row(Group, id="g1")
    row(Session, id="s1", user_id="oidc/1")
    for change in (
        lambda: user.sessions.all().delete(),
        lambda: user.sessions.update(user_id=None),
        lambda: user.groups.add(group),
        lambda: user.sessions.create(id="s2"),
    ):
        with pytest.raises(TypeError, match="is a copy of"):
            change()
    assert (Session.objects.count(), Membership.objects.count()) == (1, 0)
