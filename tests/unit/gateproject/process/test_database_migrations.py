"""An unusable database stops the start with a message, and processes migrate one at a time."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.children import Child, clean_environment
from tests.support.fork_server import python
from tests.support.options import make_options

PREPARE = """
import django
django.setup()
from django.conf import settings
from gateproject.process.database_migrations import migrate
migrate(settings.GATE_OPTIONS)
"""


def prepare(directory: Path, **settings: str) -> Child:
    make_options(directory, **settings)
    (directory / "data").mkdir(exist_ok=True)
    environment = {"GATE_CONFIG": str(directory / "config.yaml"), "DJANGO_SETTINGS_MODULE": "gateproject.settings"}
    return python("-c", PREPARE, environment=clean_environment(**environment))


def test_processes_that_start_together_all_find_the_tables(tmp_path: Path) -> None:
    children = [prepare(tmp_path) for _ in range(2)]
    for child in children:
        assert child.process.wait(60) == 0, child.output
        child.__exit__()


@pytest.mark.parametrize(("name", "message"), [("0999_later", "newer release"), ("0013_release_0_2", "gate.sqlite3 away")])
def test_a_database_of_another_release_is_left_as_it_is(tmp_path: Path, name: str, message: str) -> None:
    with prepare(tmp_path) as child:
        assert child.process.wait(60) == 0, child.output
    with closing(sqlite3.connect(tmp_path / "data" / "gate.sqlite3")) as database, database:
        database.execute(f"INSERT INTO django_migrations (app, name, applied) VALUES ('databroker', '{name}', '2027-01-01')")
        database.execute("INSERT INTO django_migrations (app, name, applied) VALUES ('gone', '0001_initial', '2020-01-01')")
    with prepare(tmp_path) as child:
        assert child.process.wait(60) != 0
        assert message in child.wait_for_line(f"databroker {name}")


def test_a_file_that_is_no_database_is_named_by_its_setting(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "gate.sqlite3").write_bytes(b"something else" * 1000)
    with prepare(tmp_path) as child:
        assert child.process.wait(60) != 0
        child.wait_for_line("database_url: cannot use the database")
