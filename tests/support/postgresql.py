"""A real PostgreSQL for tests, with a separate database. For root it runs as the user postgres, because it rejects root."""

import atexit
import glob
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Self

import psycopg

from tests.support.children import Child, clean_environment, free_port


def _binary(name: str) -> str:
    found = shutil.which(name) or max(glob.glob(f"/usr/lib/postgresql/*/bin/{name}"), default=None)
    assert found, f"{name} is missing: install PostgreSQL"
    return found


def _as_its_user(*command: str) -> list[str]:
    if os.geteuid():
        return list(command)
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", *command]


def _run(*command: str) -> None:
    done = subprocess.run(_as_its_user(*command), env=clean_environment(), cwd="/", capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def _directory() -> Path:
    """Return a directory of PostgreSQL's user, because pytest's are not accessible to other users."""
    directory = Path(tempfile.mkdtemp(prefix="postgresql-"))
    if not os.geteuid():
        user = pwd.getpwnam("postgres")
        os.chown(directory, user.pw_uid, user.pw_gid)
    return directory


@cache
def _never_started() -> str:
    """Return the data of a server that was never started, because a copy takes a quarter of the time of initdb."""
    directory = _directory()
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    data = str(directory / "data")
    _run(_binary("initdb"), "-D", data, "-U", "gate", "-A", "trust", "-E", "UTF8", "-N", "--locale-provider=icu", "--icu-locale=en")
    return data


class PostgresServer:
    """The server. It uses a language's collation, not bytes, so that code that relies on byte order must request it."""

    def __init__(self) -> None:
        self.port = free_port()
        self.directory = _directory()
        data = str(self.directory / "data")
        _run("cp", "--archive", _never_started(), data)
        settings = ["fsync=off", "listen_addresses=127.0.0.1", "unix_socket_directories="]
        self._command = [_binary("postgres"), "-D", data, "-p", str(self.port), *(part for one in settings for part in ("-c", one))]
        self.child = self._start()

    def _start(self) -> Child:
        child = Child(*_as_its_user(*self._command))
        child.wait_for_line("database system is ready to accept connections")
        return child

    @property
    def url(self) -> str:
        return f"postgresql://gate@127.0.0.1:{self.port}/postgres"

    def limit_file_size(self, size: int | None) -> None:
        """Simulate a full disk: writes beyond this size of a file fail, also for new connections; None removes the limit."""
        server = self.child.process.pid
        children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
        for process in (str(server), *children):
            limit = _as_its_user(_binary("prlimit"), "--pid", process, f"--fsize={'unlimited' if size is None else size}:")
            done = subprocess.run(limit, env=clean_environment(), cwd="/", capture_output=True, text=True, timeout=20)
            assert done.returncode == 0 or not Path(f"/proc/{process}").exists(), done.stderr

    def restart(self) -> None:
        self.child.stop(signal.SIGINT)
        self.child = self._start()

    def query(self, text: str) -> str:
        """Return the result of the last statement as text: one line per row, with | between columns."""
        try:
            with psycopg.connect(self.url, autocommit=True, connect_timeout=20, options="-c statement_timeout=20000") as connection:
                found = connection.execute(text.encode()).pgresult
        except psycopg.Error as error:
            raise AssertionError(str(error)) from error
        assert found is not None
        columns = range(found.nfields)
        return "\n".join("|".join((found.get_value(row, column) or b"").decode() for column in columns) for row in range(found.ntuples))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.child.stop(signal.SIGINT)
        shutil.rmtree(self.directory)
