"""Does the admin's search find the same people on PostgreSQL as on SQLite, which compare texts in their own ways?"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections

from databroker.admin import row_search
from databroker.models import Group, Membership, Session, User
from tests.support.database import row
from tests.support.postgresql import PostgresServer
from tests.support.stores import use_postgresql

Run = Callable[[Callable[[], list[str]]], list[str]]


@pytest.fixture
def on_sqlite(database: None) -> Run:
    people()
    return lambda work: work()


@pytest.fixture
def on_postgresql(postgresql: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    use_postgresql(postgresql.url, monkeypatch)
    postgresql.query("TRUNCATE databroker_session, databroker_membership, databroker_user, databroker_group")
    with ThreadPoolExecutor(1) as pool:  # this thread has another database's connection
        pool.submit(people).result()
        yield lambda work: pool.submit(work).result()
        pool.submit(connections.close_all).result()
    postgresql.query("TRUNCATE databroker_session, databroker_membership, databroker_user, databroker_group")


@pytest.fixture(params=["on_sqlite", "on_postgresql"])
def run(request: pytest.FixtureRequest) -> Run:
    return request.getfixturevalue(request.param)


def people() -> None:
    row(Group, id="g1", name="Engineering, north")
    row(User, id="oidc/alice", email="alice@a.org", name="Alice Adams")
    row(User, id="oidc/oezge", email="oezge@a.org", name="Özge 50%_")
    row(Membership, user_id="oidc/alice", group_id="g1")
    row(Session, id="s1", user_id="oidc/alice", client_address="2001:db8::1", last_host="App.a.org")
    row(Session, id="s2", user_id="oidc/oezge", client_address="192.0.2.22")


@pytest.mark.parametrize("few", [0, row_search.SMALL_RESULT])
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ALICE@", ["s1"]),
        ("A.ORG", ["s1", "s2"]),
        ("adams app.", ["s1"]),
        ("2001:DB8", ["s1"]),
        ("2.22", []),
        ("Özge", ["s2"]),
        ("0%_", ["s2"]),
        ("0%", ["s2"]),
        ("5_", []),
        ("\\", []),
    ],
)
def test_sessions_are_found(run: Run, text: str, found: list[str], few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_search, "SMALL_RESULT", few)
    assert run(lambda: [session.pk for session in row_search.sessions(Session.objects.order_by("pk"), text)]) == found


def test_users_are_found_by_group(run: Run) -> None:
    assert run(lambda: [user.pk for user in row_search.users(User.objects.all(), "ENGINEERING alice")]) == ["oidc/alice"]


def test_postgresql_knows_the_large_letters_of_every_language(on_postgresql: Run) -> None:
    assert on_postgresql(lambda: [user.pk for user in row_search.users(User.objects.all(), "öZGE")]) == ["oidc/oezge"]
