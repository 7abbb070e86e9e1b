"""A database for tests: made once a session, empty at the start of each test that asks for it."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache
from typing import Any, TypeVar

import pytest
from asgiref.sync import sync_to_async
from django.core.management.color import no_style
from django.db import connection, connections, models
from django.test.utils import setup_databases, teardown_databases

Result = TypeVar("Result")

# Django's own rows, written by `migrate` and cached by it for the life of the process.
KEPT = {"django_content_type", "auth_permission"}


@pytest.fixture(scope="session")
def database_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    # A file, not SQLite's memory: threads must meet the locks that they meet in earnest.
    connections["default"].settings_dict["TEST"]["NAME"] = str(tmp_path_factory.mktemp("database") / "gate.sqlite3")
    made = setup_databases(verbosity=0, interactive=False)
    # SQLite tidies the files up when nobody has them open any more, which would be at the end of each test.
    with closing(sqlite3.connect(connection.settings_dict["NAME"])) as open_all_the_time:
        open_all_the_time.execute("SELECT name FROM sqlite_master LIMIT 1").fetchall()
        yield
    teardown_databases(made, verbosity=0)


@pytest.fixture
def database(database_once: None) -> Iterator[None]:
    # Before, and not after: what is done without asking for the database may be told in its audit log as well.
    empty_the_tables()
    yield
    connection.close()


def empty_the_tables() -> None:
    with connection.cursor() as cursor:
        existing = _tables() & set(connection.introspection.table_names(cursor))
        filled = [f"SELECT '{table}' WHERE EXISTS (SELECT 1 FROM {table})" for table in sorted(existing)]
        cursor.execute(" UNION ALL ".join(filled))
        tables = [table for (table,) in cursor.fetchall()]
    if tables:
        connection.ops.execute_sql_flush(connection.ops.sql_flush(no_style(), tables))
    connection.close()


@cache
def _tables() -> set[str]:
    return set(connection.introspection.django_table_names(include_views=False)) - KEPT


def row(model: type[models.Model], **values: Any) -> Any:
    """A row of a table that only shows records, as its one writer makes it."""
    (made,) = model.rows.bulk_create([model(**values)])  # type: ignore[attr-defined]
    return made


async def in_database(question: Callable[[], Result]) -> Result:
    """Ask the ORM from a coroutine, leaving no connection open in the thread that asked."""
    return await sync_to_async(_ask)(question)


def _ask(question: Callable[[], Any]) -> Any:
    try:
        return question()
    finally:
        connection.close()
