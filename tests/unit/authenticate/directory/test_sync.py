"""The data broker's directory becomes what the file says, with no write too many."""

from pathlib import Path

import pytest

from authenticate.directory.file import parse
from authenticate.directory.sync import DirectoryFollower, apply, difference
from databroker.records import DIRECTORY_GROUP, DIRECTORY_USER
from databroker.store.memory import MemoryStore
from gateproject.errors import BrokerError
from tests.support.brokers import BrokerOverALine


class FailingBroker(BrokerOverALine):
    is_away = False

    async def page(self, type: str, after: str, limit: int):  # type: ignore[override]
        if self.is_away:
            raise BrokerError("away")
        return await self._page(type, after, limit)

    def _connect(self, store: MemoryStore) -> None:
        super()._connect(store)
        self._page = store.page
        del self.page


@pytest.fixture
def broker() -> FailingBroker:
    return FailingBroker(MemoryStore())


async def ids(broker: FailingBroker, type: str) -> list[str]:
    return [record.id for record in await broker.page(type, "", 10_000)]


async def test_only_what_differs_is_written_and_what_is_gone_is_deleted(broker: FailingBroker) -> None:
    first = parse(b"users: [{id: a, groups: [g]}, {id: b, name: B}]\ngroups: [{id: g, name: G}]", ".yaml", "oidc")
    await apply(await difference(first, broker, "oidc"), broker)
    assert await ids(broker, DIRECTORY_USER) == ["oidc/a", "oidc/b"]
    assert await difference(first, broker, "oidc") == (await difference(first, broker, "oidc"))
    assert (await difference(first, broker, "oidc")).put == ()

    second = parse(b"users: [{id: a, groups: [g, h]}]\ngroups: [{id: g, name: G}]", ".yaml", "oidc")
    changes = await difference(second, broker, "oidc")
    assert [(type, value.id) for type, value in changes.put] == [(DIRECTORY_GROUP, "h"), (DIRECTORY_USER, "oidc/a")]
    assert changes.delete == ((DIRECTORY_USER, "oidc/b"),)


async def test_more_than_a_page_is_compared(broker: FailingBroker) -> None:
    many = parse(("users:\n" + "".join(f"- {{id: u{n:04}}}\n" for n in range(1201))).encode(), ".yaml", "oidc")
    await apply(await difference(many, broker, "oidc"), broker)
    assert (await difference(many, broker, "oidc")).put == ()
    await apply(await difference(parse(b"{}", ".yaml", "oidc"), broker, "oidc"), broker)
    assert await ids(broker, DIRECTORY_USER) == []


async def test_a_changed_or_replaced_file_is_read_again(tmp_path: Path, broker: FailingBroker) -> None:
    file = tmp_path / "directory.yaml"
    follower = DirectoryFollower(file, broker, "oidc")
    await follower.look()  # there is none yet
    file.write_text("users: [{id: a}]")
    await follower.look()
    assert await ids(broker, DIRECTORY_USER) == ["oidc/a"]
    (tmp_path / "new").write_text("users: [{id: b}]")
    (tmp_path / "new").replace(file)
    await follower.look()
    assert await ids(broker, DIRECTORY_USER) == ["oidc/b"]


async def test_a_broken_file_leaves_the_last_good_directory_in_force(tmp_path: Path, broker: FailingBroker) -> None:
    file = tmp_path / "directory.yaml"
    file.write_text("users: [{id: a}]")
    follower = DirectoryFollower(file, broker, "oidc")
    await follower.look()
    for broken in ("users: [{id: a}, {id: a}]", "users: {", "", "users: [{name: x}]"):
        file.write_text(broken)
        await follower.look()
        assert await ids(broker, DIRECTORY_USER) == ["oidc/a"]
    file.unlink()
    await follower.look()
    assert await ids(broker, DIRECTORY_USER) == ["oidc/a"]


async def test_while_the_broker_is_away_the_file_waits(tmp_path: Path, broker: FailingBroker) -> None:
    file = tmp_path / "directory.yaml"
    file.write_text("users: [{id: a}]")
    follower = DirectoryFollower(file, broker, "oidc")
    broker.is_away = True
    await follower.look()
    broker.is_away = False
    await follower.look()
    assert await ids(broker, DIRECTORY_USER) == ["oidc/a"]
