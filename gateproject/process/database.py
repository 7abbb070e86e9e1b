"""Database migrations, run before anything reads or writes it."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf

from django.core.management import call_command
from django.db import Error, connection

from config.options import Options
from foundation.errors import ConfigError, Problem

# Any number that nobody else locks in this database.
_LOCK = 0x67617465


def migrate(options: Options) -> None:
    """Migrate one process at a time, because Django's migrations run twice at once break each other; ConfigError where that fails."""
    try:
        with (options.data_dir / "migrate.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            with _alone_in_the_database():
                call_command("migrate", verbosity=0, interactive=False)
    except Error as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError([Problem("database_url", f"the database can't be used: {reason}")]) from error
    finally:
        connection.close()


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
