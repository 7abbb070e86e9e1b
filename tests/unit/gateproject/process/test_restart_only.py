"""Restart-only settings keep their value and are reported."""

from pathlib import Path

from structlog.testing import capture_logs

from config.options import Options
from gateproject.process.restart_only import RESTART_ONLY, keep_restart_only_values
from tests.support.options import make_options


def test_restart_only_keys_are_settings() -> None:
    assert set(RESTART_ONLY) <= set(Options.attributes())


def test_only_restart_settings_are_held_back(tmp_path: Path) -> None:
    running = make_options(tmp_path)
    changed = make_options(tmp_path, address="127.0.0.1:9999", cookie_expire="1h")
    with capture_logs() as logs:
        taken = keep_restart_only_values(changed, running)
    assert taken.address == running.address
    assert taken.cookie_expire == changed.cookie_expire
    assert [entry["settings"] for entry in logs] == [["address"]]


def test_unchanged_resources_are_not_sent(tmp_path: Path) -> None:
    running = make_options(tmp_path)
    changed = make_options(tmp_path, cookie_expire="1h")
    with capture_logs() as logs:
        assert keep_restart_only_values(changed, running) is changed
    assert logs == []
