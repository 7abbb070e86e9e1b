"""Connections of ended upgrades are closed after all data was received."""

import pytest

from proxy.envoy.resources import upgrade_reaper
from proxy.envoy.resources.internal_headers import AUTHORIZED
from proxy.envoy.resources.upgrade_reaper import UpgradeReaper, access_log
from tests.support.eventually import eventually
from tests.unit.proxy.envoy.stage import NoConnections

ONE, OTHER = ("192.0.2.7", 5000), ("192.0.2.8", 5000)
LINE, OTHER_LINE = "192.0.2.7:5000 HTTP/1.1", "192.0.2.8:5000 HTTP/1.1"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upgrade_reaper, "_EVERY", 0)


async def reported(upgrades: UpgradeReaper) -> None:
    await eventually(lambda: repr(upgrades) == "<UpgradeReaper 0>")


async def test_an_end_is_passed_on_once_and_together_with_others() -> None:
    connections = NoConnections()
    upgrades = UpgradeReaper(connections.shut_down)
    upgrades.handle_line(LINE)
    upgrades.handle_line(OTHER_LINE)
    await reported(upgrades)
    upgrades.handle_line(LINE)
    await reported(upgrades)
    assert connections.finished == [{ONE, OTHER}, {ONE}]


async def test_unsent_connections_are_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upgrade_reaper, "DELAYED_CLOSE_SECONDS", 0.02)
    connections = NoConnections()
    connections.unsent = {ONE}
    upgrades = UpgradeReaper(connections.shut_down)
    upgrades.handle_line(LINE)
    upgrades.handle_line(OTHER_LINE)
    await reported(upgrades)
    first, *again = connections.finished
    assert first == {ONE, OTHER}
    assert again
    assert all(closing == {ONE} for closing in again)


async def test_ignores_malformed_lines_and_http2_connections() -> None:
    connections = NoConnections()
    upgrades = UpgradeReaper(connections.shut_down)
    for line in ("", "-", "- HTTP/1.1", "192.0.2.7:5000", "192.0.2.7:5000 HTTP/2"):
        upgrades.handle_line(line)
    await reported(upgrades)
    assert connections.finished == []


def test_logs_only_connections_that_gate_closed() -> None:
    _, ended = access_log("/log")["filter"]["and_filter"]["filters"]
    filters = ended["and_filter"]["filters"]
    assert {"response_flag_filter": {"flags": ["UC"]}} in filters
    (kinds,) = (each["or_filter"]["filters"] for each in filters if "or_filter" in each)
    assert {each["header_filter"]["header"]["name"] for each in kinds if "header_filter" in each} == {":method", AUTHORIZED}
