from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from config.config_watcher import ConfigWatcher
from config.inspect.config_diff import MAX_CHANGES, ConfigSnapshot
from config.options import Options
from gateproject.process.reload import ConfigProvenance, ConfigurationStatus, Reload
from gateproject.process.restart_only import keep_restart_only_values
from tests.support.options import make_options


async def test_failing_part_blocks_no_other_and_is_reported() -> None:
    received, reload = [], Reload()

    def fails() -> None:
        raise OSError("no port")

    async def receive() -> None:
        received.append("slow")

    with capture_logs() as logs:
        await reload.apply("quick", lambda: received.append("quick"))
        await reload.apply("broken", fails)
        await reload.apply("slow", receive)
    assert received == ["quick", "slow"]
    assert [problem.key for problem in reload.problems] == ["broken"]
    assert "OSError: no port" in reload.problems[0].message
    assert [(line["event"], line["component"]) for line in logs] == [("configuration reload incomplete", "broken")]


class Life:
    """Life of a process, as Runtime lives it."""

    def __init__(self, directory: Path, **settings: Any):
        self._directory = directory
        self._source = ConfigWatcher(directory / "config.yaml", {})
        self.running = self._load(settings)
        self.status = ConfigurationStatus.from_watcher(self._source)
        self.known = ConfigProvenance(self._source.source_map)

    def _load(self, settings: dict[str, Any]) -> Options:
        make_options(self._directory, **settings)
        return self._source.load()

    def reload(self, **settings: Any) -> ConfigProvenance:
        written = self._load(settings)
        taken = keep_restart_only_values(written, self.running)
        self.known = self.known.advance(self.running, self.status, ConfigSnapshot(written, self._source.source_map), taken)
        self.running, self.status = taken, ConfigurationStatus.from_watcher(self._source)
        return self.known


@pytest.fixture
def life(tmp_path: Path) -> Life:
    return Life(tmp_path, cookie_expire="1h")


def test_at_start_no_earlier_state_is_known(life: Life) -> None:
    assert (life.known.last, life.known.pending_restart) == (None, ())


def test_reload_knows_previous_configuration(life: Life) -> None:
    checksum = life.status.checksum
    last = life.reload(cookie_expire="2h").last
    assert last is not None
    assert [(change.key, change.before, change.after) for change in last.changes] == [("cookie_expire", "1h", "2h")]
    assert (last.number, last.before.checksum) == (1, checksum)


def test_a_reload_that_changes_nothing_forgets_no_change(life: Life) -> None:
    last = life.reload(cookie_expire="2h").last
    assert life.reload(cookie_expire="2h").last == last


def test_change_pending_restart_is_no_change_yet_and_retains_its_location(life: Life) -> None:
    place = life.known.source_map.setting_location("address")
    known = life.reload(cookie_domain="example.com", cookie_expire="1h", address="127.0.0.1:9999")
    assert [(change.key, change.before, change.after) for change in known.pending_restart] == [
        ("address", "127.0.0.1:8443", "127.0.0.1:9999")
    ]
    assert known.last is not None
    assert [change.key for change in known.last.changes] == ["cookie_domain"]
    assert known.source_map.setting_location("address") == place
    assert life.reload(cookie_expire="1h").pending_restart == ()


def test_first_of_many_changes_are_retained_and_all_counted(life: Life) -> None:
    routes = [{"from": f"https://a{index}.example.com", "to": "http://u", "allowed_groups": ["x"]} for index in range(MAX_CHANGES + 50)]
    last = life.reload(cookie_expire="1h", policy=routes).last
    assert last is not None
    assert (len(last.changes), last.number) == (MAX_CHANGES, MAX_CHANGES + 50)
