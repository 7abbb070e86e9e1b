"""Database migrations, run before anything reads or writes it."""

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

# Any number that nobody else locks in this database.
_LOCK = 0x67617465


def migrate(options: Options) -> None:
    """Migrate one process at a time, because Django's migrations run twice at once break each other; ConfigError where that fails."""
    try:
        with (options.data_dir / "migrate.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            with _alone_in_the_database():
                loader = MigrationLoader(connection)
                _require_none_newer(loader)
                # The command looks at every model of every migration, and asks for each permission, even where nothing is to be done.
                if loader.graph.nodes.keys() - loader.applied_migrations.keys():
                    call_command("migrate", verbosity=0, interactive=False)
    except Error as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError([Problem("database_url", f"cannot use the database: {reason}")]) from error
    finally:
        connection.close()


def _require_none_newer(loader: MigrationLoader) -> None:
    """ConfigError where a newer release has changed the tables: this one would write into them what that one can't read, or lose it."""
    newest = dict(sorted(loader.disk_migrations))  # by application, the last of each
    for label, name in sorted(loader.applied_migrations or ()):
        if name > newest.get(label, name):
            said = f"the database was written by a newer release ({label} {name}; this is gate v{RELEASE})"
            raise ConfigError(
                [Problem("database_url", f"{said}. Install that release, or restore a backup (docs/operations/backup-and-upgrade.md)")]
            )


@contextmanager
def _alone_in_the_database() -> Iterator[None]:
    if connection.vendor != "postgresql":
        yield
        return
    with connection.cursor() as cursor:
        connection.connection.longest_wait = inf
        cursor.execute("SET statement_timeout = 0; SET lock_timeout = 0")
        cursor.execute("SELECT pg_advisory_lock(%s)", [_LOCK])  # until the connection closes
    yield
