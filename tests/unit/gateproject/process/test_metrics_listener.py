"""Binding and rebinding of the port, and the effect of an invalid address."""

import socket
from pathlib import Path

import pytest

from foundation.errors import ConfigError
from foundation.telemetry.exposition import MetricsEndpoint
from foundation.telemetry.monitoring_app import MonitoringApp
from gateproject.process.metrics_listener import MetricsListener
from tests.support.options import make_options
from tests.support.ready import READY

PAGES = MonitoringApp(MetricsEndpoint("gate"), lambda: READY)


def test_no_address_takes_no_port(tmp_path: Path) -> None:
    assert MetricsListener(PAGES).bind(make_options(tmp_path)) is None


def test_a_new_address_is_taken_and_not_yet_served(tmp_path: Path) -> None:
    taken = MetricsListener(PAGES).bind(make_options(tmp_path, metrics_address="127.0.0.1:0"))
    assert taken is not None
    with taken:
        assert taken.getsockname()[0] == "127.0.0.1"


def test_a_taken_address_is_a_clear_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"metrics_address: can't listen on 127.0.0.1:{port}"):
            MetricsListener(PAGES).bind(make_options(tmp_path, metrics_address=f"127.0.0.1:{port}"))


async def test_port_held_by_another_process_is_an_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"metrics_address: can't listen on 127.0.0.1:{port}"):
            await MetricsListener(PAGES).rebind(make_options(tmp_path, metrics_address=f"127.0.0.1:{port}"))


async def test_reload_binds_no_port_under_a_foreign_server(tmp_path: Path) -> None:
    listener, options = MetricsListener(PAGES), make_options(tmp_path, metrics_address="127.0.0.1:0")
    listener.is_on = False
    assert listener.bind(options) is None
    assert await listener.rebind(options) is None
    listener.serve(options, None)
    listener.close()
