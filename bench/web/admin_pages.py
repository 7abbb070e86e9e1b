"""Response times of the admin's pages with the data of a large company.

    python -m bench.web.admin_pages

100,000 users with a session each, 10,000 groups of 20, 100,000 entries in the audit log and in the decision log; in SQLite and in a real
PostgreSQL. Goal: every page in less than half a second. Then the projection is filled from a store with as many sessions, as at start.
"""

import asyncio
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import django
import structlog

GOAL_SECONDS = 0.5
USERS = 100_000
GROUPS, MEMBERS = 10_000, 20
NOW = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
SAMPLE_USER = "oidc/050000"

# Queries of each list, with a description.
DECISIONS = "authorize/loggeddecision/"
SESSIONS, USERS, GROUPS_, AUDIT = (f"databroker/{model}/" for model in ("session", "user", "group", "auditentry"))
PAGES: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("the index", "", {}),
    ("sessions", SESSIONS, {}),
    ("sessions, the last page", SESSIONS, {"p": "2000"}),
    *((f"sessions by column {column}", SESSIONS, {"o": str(column)}) for column in range(1, 8)),
    ("sessions found by e-mail", SESSIONS, {"q": "person-050000"}),
    ("sessions found by address", SESSIONS, {"q": "10.0.195."}),
    ("sessions found by nothing", SESSIONS, {"q": "nobody at all"}),
    ("sessions of a person", SESSIONS, {"user__id__exact": SAMPLE_USER}),
    ("users", USERS, {}),
    ("users, the last page", USERS, {"p": "2000"}),
    *((f"users by column {column}", USERS, {"o": str(column)}) for column in range(1, 5)),
    ("users found by e-mail", USERS, {"q": "person-050000"}),
    ("users found by group", USERS, {"q": "team 5000"}),
    ("users found by nothing", USERS, {"q": "nobody at all"}),
    ("users of a group", USERS, {"groups__id__exact": "g5000"}),
    ("groups", GROUPS_, {}),
    *((f"groups by column {column}", GROUPS_, {"o": str(column)}) for column in range(1, 5)),
    ("groups found by name", GROUPS_, {"q": "team 5000"}),
    ("a session", f"{SESSIONS}s050000/change/", {}),
    ("a user", f"{USERS}oidc_2F050000/change/", {}),
    ("the decision log", DECISIONS, {}),
    ("refusals of a route without any", DECISIONS, {"route_id": "none", "outcome": "forbidden"}),
    ("decisions of a person", DECISIONS, {"person": "person-050000@example.com"}),
    ("decisions of a person by a part of the name", DECISIONS, {"person": "050000"}),
    ("decisions of a route", DECISIONS, {"route_id": "r07"}),
    ("refusals of a route", DECISIONS, {"route_id": "r07", "outcome": "forbidden"}),
    ("refusals", DECISIONS, {"outcome": "forbidden"}),
    ("outcomes that there are none of", DECISIONS, {"outcome": "client certificate"}),
    ("decisions of an hour of yesterday", DECISIONS, {"from": "2026-03-03T20:00", "to": "2026-03-03T21:00", "zone": "Europe/Berlin"}),
    ("decisions before most others", DECISIONS, {"before": "1772539200000000-500"}),
    (
        "refusals of a route within an hour",
        DECISIONS,
        {"route_id": "r07", "outcome": "forbidden", "from": "2026-03-04T05:00", "to": "2026-03-04T06:00"},
    ),
    ("decisions of an address", DECISIONS, {"q": "192.0.2.77"}),
    ("decisions with words that none has", DECISIONS, {"q": "nothing at all"}),
    ("decisions that shadow would change", DECISIONS, {"shadow_outcome": "forbidden"}),
    ("groups of a claim", GROUPS_, {"origin": "claim"}),
    ("a group", f"{GROUPS_}g5000/change/", {}),
    ("what was done to a session", AUDIT, {"object_id": "s050000"}),
    ("the question whether to end a session", f"{SESSIONS}s050000/delete/", {}),
    ("the audit log", AUDIT, {}),
    ("the audit log, the last page", AUDIT, {"p": "2000"}),
    *((f"the audit log by column {column}", AUDIT, {"o": str(column)}) for column in range(1, 5)),
    ("the audit log searched", AUDIT, {"q": "person-050000"}),
)


def main() -> int:
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateproject.settings")
    django.setup()
    slowest = 0.0
    for name, database in (("SQLite", sqlite), ("PostgreSQL", postgresql)):
        with database():
            seed()
            print(f"{name}: {USERS:,} people, sessions and log entries, {GROUPS:,} groups of {MEMBERS}; clock, processor")
            slowest = max(slowest, *pages())
            filling()
    print(f"the slowest page took {1e3 * slowest:.0f} ms; the goal is less than {1e3 * GOAL_SECONDS:.0f} ms")
    return 0 if slowest < GOAL_SECONDS else 1


def pages() -> Iterator[float]:
    import authenticate.admin
    import authorize.admin
    from databroker.admin import group_admin, service_account_admin, session_admin
    from databroker.store.memory import MemoryStore
    from gateproject import user_admin
    from tests.support.admin import AdminPages
    from tests.support.options import make_options

    with tempfile.TemporaryDirectory() as directory:
        options = make_options(Path(directory))
    modules: Any = (session_admin, group_admin, service_account_admin, authorize.admin, authenticate.admin, user_admin)
    site = AdminPages(*(each.register for each in modules), broker=MemoryStore(), options=options)
    site.get(SESSIONS)  # templates are cached
    for description, page, query in PAGES:
        started, processor = time.perf_counter(), time.process_time()
        response = site.get(page, **query)
        took, processor = time.perf_counter() - started, time.process_time() - processor
        if response.status_code != 200:
            raise SystemExit(f"the bench measures the wrong thing: {page} {query} is answered with {response.status_code}")
        print(f"  {1e3 * took:6.0f} ms  {1e3 * processor:6.0f} ms  {description}")
        yield took


def filling() -> None:
    """Measure twice: into empty tables, and over existing rows of another store."""
    from databroker.models import Session, User

    store = asyncio.run(filled_store())
    for description, erase in (("into empty tables", True), ("over full ones, after a restart", False)):
        if erase:
            Session.rows.all().delete()
            User.rows.all().delete()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        took = asyncio.run(loaded(store))
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        print(f"  {took:6.1f} s   {USERS:,} sessions and people {description}; {max(grown, 0):.0f} MiB more memory")


async def filled_store() -> Any:
    from databroker.records import SESSION, USER
    from databroker.store.memory import MemoryStore

    store = MemoryStore()
    for number in range(USERS):
        user = f"oidc/{number:06}"
        await store.put(SESSION, f"s{number:06}", {"user_id": user, "issued": NOW.timestamp(), "claims": {"email": user}})
        await store.put(USER, user, {"email": f"person-{number:06}@example.com"})
    return store


async def loaded(store: Any) -> float:
    from databroker.projection.projection import Projection

    started = time.perf_counter()
    await Projection(store)._load()
    return time.perf_counter() - started


def seed() -> None:
    from authorize.models import LoggedDecision
    from databroker.models import AuditEntry, Group, Membership, Session, User

    many(Group, GROUPS, lambda n: Group(id=f"g{n:04}", name=f"team {n}", email=f"team-{n}@example.com", from_claim=True))
    many(
        User,
        USERS,
        lambda n: User(
            id=f"oidc/{n:06}", email=f"person-{n:06}@example.com", name=f"Person {n}", last_sign_in_at=NOW - timedelta(seconds=n)
        ),
    )
    many(
        Membership, GROUPS * MEMBERS, lambda n: Membership(user_id=f"oidc/{n % USERS:06}", group_id=f"g{n // MEMBERS:04}", from_claim=True)
    )
    many(
        Session,
        USERS,
        lambda n: Session(
            id=f"s{n:06}",
            user_id=f"oidc/{n:06}",
            started_at=NOW - timedelta(seconds=n),
            expires_at=NOW + timedelta(seconds=7 * n % 50_000),
            client_address=f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}",
            user_agent=f"Mozilla/5.0 (X11; Linux x86_64) Chrome/{n % 90}",
            last_seen_at=NOW + timedelta(seconds=11 * n % 40_000),
            last_host=f"app{n % 50}.example.com",
        ),
    )
    many(
        AuditEntry,
        USERS,
        lambda n: AuditEntry(
            actor="ann@example.com", object_id=f"s{n:06}", object_repr=f"person-{n:06}@example.com", action="ends the session"
        ),
    )

    decided = {"method": "GET", "duration_seconds": 0.0, "snapshot": "{" + " " * 800 + "}"}
    many(
        LoggedDecision,
        USERS,
        lambda n: LoggedDecision(
            decided_at=NOW - timedelta(seconds=USERS - n),
            user_id=f"oidc/{n:06}",
            display_name=f"person-{n:06}@example.com",
            url=f"https://app.example.com/{n}",
            client_address=f"192.0.2.{n % 250}",
            route_name=f"App {n % 40}",
            route_id=f"r{n % 40:02}",
            outcome="allowed" if n % 10 else "forbidden",
            **decided,
        ),
    )


def many(model: Any, number: int, row: Callable[[int], Any]) -> None:
    for start in range(0, number, 10_000):
        getattr(model, "rows", model.objects).bulk_create([row(n) for n in range(start, min(start + 10_000, number))], batch_size=2000)


@contextmanager
def sqlite() -> Iterator[None]:
    from gateproject.settings import _database

    with tempfile.TemporaryDirectory() as directory, database({**_database(None), "NAME": str(Path(directory) / "gate.sqlite3")}):
        yield


@contextmanager
def postgresql() -> Iterator[None]:
    from config.settings.storage_url import parse_database_url
    from gateproject.settings import _postgresql
    from tests.support.postgresql import PostgresServer

    with ExitStack() as stack:
        server = stack.enter_context(PostgresServer())
        stack.enter_context(database(_postgresql(parse_database_url(server.url))))
        yield


@contextmanager
def database(settings: dict[str, Any]) -> Iterator[None]:
    from asgiref.sync import sync_to_async
    from django.core.management import call_command
    from django.db import connections

    connections.settings["default"] = connections.configure_settings({"default": settings})["default"]

    def forget() -> None:
        connections["default"].close()
        del connections["default"]

    forget()
    asyncio.run(sync_to_async(forget)())  # the projection thread has a separate connection
    call_command("migrate", verbosity=0, interactive=False)
    try:
        yield
    finally:
        connections.close_all()


if __name__ == "__main__":
    sys.exit(main())
