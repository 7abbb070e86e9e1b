"""A database for tests: created once per session, and empty at the start of each test that uses it."""

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

# Rows that Django's `migrate` writes and caches for the lifetime of the process.
DJANGO_TABLES = {"django_content_type", "auth_permission"}


@pytest.fixture(scope="session")
def database_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    # A file instead of memory, so that threads meet the same locks as in production.
    connections["default"].settings_dict["TEST"]["NAME"] = str(tmp_path_factory.mktemp("database") / "gate.sqlite3")
    made = setup_databases(verbosity=0, interactive=False)
    # One connection stays open, because SQLite would otherwise clean up the files at the end of each test.
    with closing(sqlite3.connect(connection.settings_dict["NAME"])) as open_all_the_time:
        open_all_the_time.execute("SELECT name FROM sqlite_master LIMIT 1").fetchall()
        yield
    teardown_databases(made, verbosity=0)


@pytest.fixture
def database(database_once: None) -> Iterator[None]:
    # Before the test, not after it: tests that do not use the database may also write to its audit log.
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
    return set(connection.introspection.django_table_names(include_views=False)) - DJANGO_TABLES


def row(model: type[models.Model], **values: Any) -> Any:
    """Create a row of a read-only projection, as its writer does."""
    (made,) = model.rows.bulk_create([model(**values)])  # type: ignore[attr-defined]
    return made


async def in_database(question: Callable[[], Result]) -> Result:
    """Use the ORM from a coroutine, and close the connection of its thread."""
    return await sync_to_async(_ask)(question)


def _ask(question: Callable[[], Any]) -> Any:
    try:
        return question()
    finally:
        connection.close()
