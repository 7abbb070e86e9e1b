import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from config.config_watcher import ConfigWatcher
from config.fields.setting_files import watched_files
from config.loader import CheckResult, check_configuration
from foundation.errors import ConfigError
from tests.support.certs import certificate_files
from tests.support.options import MINIMAL


def write(path: Path, **settings: object) -> None:
    """As editors and Kubernetes do it: a new file takes the old one's place."""
    new = path.with_suffix(".new")
    new.write_text(yaml.safe_dump({**MINIMAL, "data_dir": str(path.parent), **settings}))
    new.replace(path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    write(path)
    return path


def test_nothing_changed_until_the_file_does(path: Path) -> None:
    source = ConfigWatcher(path, {})
    source.load()
    assert not source.has_changed()
    write(path, cookie_name="other")
    assert source.has_changed()
    assert source.load().cookie_name == "other"
    assert not source.has_changed()


def test_a_broken_file_is_reported_once(path: Path) -> None:
    source = ConfigWatcher(path, {})
    source.load()
    path.write_text("cookie_nam: x\n")
    assert source.has_changed()
    with pytest.raises(ConfigError):
        source.load()
    assert not source.has_changed()


def test_a_file_that_vanishes_and_returns_is_a_change_each_time(path: Path) -> None:
    source = ConfigWatcher(path, {})
    source.load()
    path.unlink()
    assert source.has_changed()
    with pytest.raises(ConfigError):
        source.load()
    write(path)
    assert source.has_changed()


def test_a_swapped_symbolic_link_is_noticed(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "config.yaml", cookie_name=name)
    link = tmp_path / "current"
    link.symlink_to(tmp_path / "one")
    source = ConfigWatcher(link / "config.yaml", {})
    assert source.load().cookie_name == "one"
    replacement = tmp_path / "next"
    replacement.symlink_to(tmp_path / "two")
    replacement.replace(link)
    assert source.has_changed()
    assert source.load().cookie_name == "two"


def test_files_that_settings_name_count_too(tmp_path: Path, path: Path) -> None:
    (tmp_path / "key.pem").write_bytes(_signing_key())
    write(path, signing_key_file="key.pem")
    source = ConfigWatcher(path, {})
    options = source.load()
    assert [file.path for file in watched_files(options)] == [tmp_path / "key.pem"]
    before = source.checksum
    (tmp_path / "key.pem").write_bytes(_signing_key())
    os.utime(tmp_path / "key.pem", (1, 1))
    assert source.has_changed()
    assert source.checksum == before
    source.load()
    assert source.checksum != before


def test_the_environment_is_the_one_of_the_start(path: Path) -> None:
    environ = {"COOKIE_NAME": "first"}
    source = ConfigWatcher(path, environ)
    environ["COOKIE_NAME"] = "second"
    assert source.load().cookie_name == "first"


def test_the_checksum_follows_the_bytes(path: Path) -> None:
    source = ConfigWatcher(path, {})
    source.load()
    before = source.checksum
    source.load()
    assert before == source.checksum
    assert len(before) == 16
    path.write_bytes(path.read_bytes() + b"\n")
    source.load()
    assert source.checksum != before


def _signing_key() -> bytes:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())


def test_a_change_while_the_file_is_being_read_is_not_missed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_then_written(*where: Any) -> CheckResult:
        checked = check_configuration(*where)
        write(path, cookie_name="later")
        return checked

    source = ConfigWatcher(path, {})
    monkeypatch.setattr("config.config_watcher.check_configuration", read_then_written)
    assert source.load().cookie_name != "later"
    monkeypatch.undo()
    assert source.has_changed()
    assert source.load().cookie_name == "later"
    assert not source.has_changed()


def test_a_file_that_a_refused_configuration_names_is_followed(path: Path) -> None:
    """It may be what is wrong: once it is there, the configuration is right."""
    source = ConfigWatcher(path, {})
    source.load()
    write(path, signing_key_file="late.pem")
    with pytest.raises(ConfigError):
        source.load()
    assert not source.has_changed()
    (path.parent / "late.pem").write_bytes(_signing_key())
    assert source.has_changed()
    assert source.load().signing_key_file is not None


ROUTES = [{"from": f"https://{name}.example.com", "to": "http://127.0.0.1:1", "allowed_users": [name]} for name in ("a", "b")]


def test_unchanged_routes_stay_the_same_objects(path: Path) -> None:
    source = ConfigWatcher(path, {})
    write(path, policy=ROUTES)
    before = source.load().policy
    write(path, policy=[{**ROUTES[0], "timeout": "1s"}, ROUTES[1]])
    after = source.load().policy
    assert after[1] is before[1]
    assert after[0] is not before[0]
    write(path, policy=list(reversed(ROUTES)))
    assert source.load().policy == (before[1], before[0])


def test_a_route_that_names_a_file_follows_it(path: Path, tmp_path: Path) -> None:
    (tmp_path / "ca").mkdir()
    write(path, policy=[{**ROUTES[0], "to": "https://127.0.0.1:1", "tls_custom_ca_file": "ca/ca.pem"}])
    source = ConfigWatcher(path, {})
    authorities = []
    for _ in range(2):
        certificate_files(tmp_path / "ca", "a.example.com")
        assert source.has_changed()
        authorities.append(source.load().policy[0].tls_custom_ca)
    assert authorities[0] != authorities[1]


class ClockOfATest:
    """Clock that advances on sleep."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, while_asleep: Callable[[], None] = lambda: None):
        self.now, self._while_asleep = 1_000.0, while_asleep
        monkeypatch.setattr("config.config_watcher.time.monotonic", lambda: self.now)
        monkeypatch.setattr("config.config_watcher.asyncio.sleep", self._sleep)

    async def _sleep(self, seconds: float) -> None:
        self.now += seconds
        self._while_asleep()


def _aged(path: Path, seconds: float) -> None:
    os.utime(path, (time.time() - seconds,) * 2)


def test_a_file_has_settled_when_it_has_not_changed_for_a_second(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ClockOfATest(monkeypatch)
    _aged(path, 60)
    source = ConfigWatcher(path, {})
    source.load()
    assert source.find_unsettled() is None
    path.write_bytes(path.read_bytes() + b"# more\n")
    _aged(path, 60)  # as by a file system whose clock is behind: what was seen to change has changed
    assert source.find_unsettled() == (path, 1.0)
    clock.now += 0.75
    assert source.find_unsettled() == (path, 0.25)
    path.unlink()
    assert source.find_unsettled() == (path, 1.0)
    clock.now += 1.0
    assert source.find_unsettled() is None


@pytest.mark.parametrize(("age", "has_settled"), [(60, True), (0, False), (-60, False)])
def test_a_file_that_was_not_seen_before_has_settled_by_its_own_time(path: Path, age: int, has_settled: bool) -> None:
    _aged(path, age)
    assert (ConfigWatcher(path, {}).find_unsettled() is None) is has_settled


def test_a_file_that_settings_name_has_to_settle_too(path: Path) -> None:
    key = path.parent / "key.pem"
    key.write_bytes(_signing_key())
    write(path, signing_key_file="key.pem")
    _aged(path, 60)
    source = ConfigWatcher(path, {})
    source.load()
    unsettled = source.find_unsettled()
    assert unsettled is not None
    assert unsettled[0] == key


async def test_incomplete_file_is_waited_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rest = [b"# one\n", b"# two\n"]

    def write_on() -> None:
        if rest:
            path.write_bytes(path.read_bytes() + rest.pop())

    ClockOfATest(monkeypatch, while_asleep=write_on)
    source = ConfigWatcher(path, {})
    await source.settle()
    assert not rest
    assert source.find_unsettled() is None


async def test_continuously_changing_file_is_refused_by_name(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ClockOfATest(monkeypatch, while_asleep=lambda: path.write_bytes(path.read_bytes() + b"#\n"))
    with pytest.raises(ConfigError, match=r"config\.yaml: .* while it changes"):
        await ConfigWatcher(path, {}).settle()


def test_without_a_file_nothing_has_to_settle() -> None:
    assert ConfigWatcher(None, {}).find_unsettled() is None
