"""Database migrations, applied before anything uses the database."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf

from django.core.management import call_command
from django.db import Error, connection
from django.db.migrations.loader import MigrationLoader

from config.options import Options
from foundation.errors import ConfigError, Problem
from foundation.version import RELEASE

# An arbitrary key of an advisory lock, unique in this database.
_LOCK = 0x67617465
# Applications whose migrations before 0.2 were squashed; no release had them.
_SQUASHED = frozenset({"databroker", "authorize"})


def migrate(options: Options) -> None:
    """Migrate, one process at a time, because concurrent migrations break each other. Raise ConfigError if it fails."""
    try:
        with (options.data_dir / "migrate.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            with _advisory_lock():
                loader = MigrationLoader(connection)
                _require_known(loader)
                # The migrate command loads every model of every migration and queries each permission, even without changes.
                if loader.graph.nodes.keys() - loader.applied_migrations.keys():
                    call_command("migrate", verbosity=0, interactive=False)
    except Error as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError([Problem("database_url", f"cannot use the database: {reason}")]) from error
    finally:
        connection.close()


def _require_known(loader: MigrationLoader) -> None:
    """Raise ConfigError if another release created the tables, because writing to them could lose data."""
    newest = dict(sorted(loader.disk_migrations))  # last migration by application
    for label, name in sorted(loader.applied_migrations or ()):
        if name > newest.get(label, name):
            problem = f"was written by a newer release ({label} {name}; this is gate v{RELEASE}). Install that release, or restore a backup"
        elif label in _SQUASHED and (label, name) not in loader.disk_migrations:
            problem = f"was written before gate 0.2 ({label} {name}). {_recreation_steps()}: users sign in again, history is lost"
        else:
            continue
        raise ConfigError([Problem("database_url", f"the database {problem} (docs/operations/backup-and-upgrade.md)")])


def _recreation_steps() -> str:
    return f"Move {connection.settings_dict['NAME']} away" if connection.vendor == "sqlite" else "Use an empty database"


@contextmanager
def _advisory_lock() -> Iterator[None]:
    if connection.vendor != "postgresql":
        yield
        return
    with connection.cursor() as cursor:
        connection.connection.max_wait_seconds = inf
        cursor.execute("SET statement_timeout = 0; SET lock_timeout = 0")
        cursor.execute("SELECT pg_advisory_lock(%s)", [_LOCK])  # held until the connection closes
    yield
