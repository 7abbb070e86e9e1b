"""The directory in the data broker follows the file, and a broken one changes nothing."""

from pathlib import Path
from unittest.mock import patch

import pytest

from authenticate.directory.file_watcher import DirectoryFileWatcher, FileSource
from authenticate.directory.snapshot import DirectoryError, TimeBudget
from databroker.records import DIRECTORY_USER
from databroker.store.memory import MemoryStore
from foundation.errors import BrokerError
from tests.support.providers import a_provider


@pytest.fixture
def broker() -> MemoryStore:
    return MemoryStore()


async def ids(broker: MemoryStore, type: str) -> list[str]:
    return [record.id for record in await broker.page(type, "", 10_000)]


async def test_a_changed_or_replaced_file_is_read_again(tmp_path: Path, broker: MemoryStore) -> None:
    file = tmp_path / "directory.yaml"
    follower = DirectoryFileWatcher(file, broker, a_provider())
    await follower.check()  # there is none yet
    file.write_text("users: [{id: a}]")
    await follower.check()
    assert await ids(broker, DIRECTORY_USER) == ["oidc/a"]
    (tmp_path / "new").write_text("users: [{id: b}]")
    (tmp_path / "new").replace(file)
    await follower.check()
    assert await ids(broker, DIRECTORY_USER) == ["oidc/b"]


async def test_broken_file_leaves_last_valid_directory_in_force(tmp_path: Path, broker: MemoryStore) -> None:
    file = tmp_path / "directory.yaml"
    file.write_text("users: [{id: a}]")
    follower = DirectoryFileWatcher(file, broker, a_provider())
    await follower.check()
    for broken in ("users: [{id: a}, {id: a}]", "users: {", "", "users: [{name: x}]"):
        file.write_text(broken)
        await follower.check()
        assert await ids(broker, DIRECTORY_USER) == ["oidc/a"]
    file.unlink()
    await follower.check()
    assert await ids(broker, DIRECTORY_USER) == ["oidc/a"]


async def test_while_the_broker_is_away_the_file_waits(tmp_path: Path, broker: MemoryStore) -> None:
    file = tmp_path / "directory.yaml"
    file.write_text("users: [{id: a}]")
    follower = DirectoryFileWatcher(file, broker, a_provider())
    with patch.object(broker, "page", side_effect=BrokerError("away")):
        await follower.check()
    await follower.check()
    assert await ids(broker, DIRECTORY_USER) == ["oidc/a"]


async def test_the_file_can_be_read_like_any_directory(tmp_path: Path) -> None:
    file = tmp_path / "directory.yaml"
    source = FileSource(file, a_provider())
    with pytest.raises(DirectoryError, match="can't be read"):
        await source.fetch(TimeBudget(0.0))
    file.write_text("users: [{id: a}]")
    assert list((await source.fetch(TimeBudget(0.0))).users) == ["oidc/a"]
    assert str(source) == "directory_file directory.yaml"
    await source.close()
