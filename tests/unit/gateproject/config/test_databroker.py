"""Where records and Django's tables live."""

from pathlib import Path

import pytest

from tests.unit.gateproject.config.conftest import Load, Problems


def test_the_database_is_a_file_below_the_data_directory(load: Load) -> None:
    options = load(data_dir="/var/lib/gate 100%#")
    assert options.database_path == Path("/var/lib/gate 100%#/gate.sqlite3")
    assert options.database_url == "sqlite:////var/lib/gate%20100%25%23/gate.sqlite3"


def test_a_relative_database_starts_at_the_configuration(load: Load, tmp_path: Path) -> None:
    assert load(database_url="sqlite:///own.db").database_path == tmp_path / "own.db"
    assert load(database_url="sqlite:////srv/own.db").database_path == Path("/srv/own.db")


@pytest.mark.parametrize("url", ["mysql://x", "sqlite://", "sqlite:///", "own.db", "sqlite:///a%00b"])
def test_other_databases_are_refused(problems: Problems, url: str) -> None:
    assert list(problems(database_url=url)) == ["database_url"]


def test_what_is_not_built_says_so(problems: Problems) -> None:
    assert "not available" in problems(database_url="postgres://gate:hunter2@db/gate")["database_url"]
    assert "hunter2" not in str(problems(database_url="postgres://gate:hunter2@db/gate"))
    for kind in ("kvstore", "redis", "database"):
        assert "not available" in problems(databroker_storage_type=kind)["databroker_storage_type"]
    assert "must be one of memory, kvstore" in problems(databroker_storage_type="etcd")["databroker_storage_type"]
