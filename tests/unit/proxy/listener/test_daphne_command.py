"""Daphne's command starts our server; how it does is what we rely on without being promised it."""

import inspect
from collections.abc import Iterator
from dataclasses import replace

import daphne
import daphne.cli
import daphne.server
import pytest

from foundation.errors import ConfigError
from proxy.listener.daphne_command import DaphneIntegration, install
from proxy.listener.listener_context import Lifecycle, ListenerConfig, ListenerSettings
from proxy.listener.listener_limits import ListenerLimits
from proxy.listener.server import ChannelFactory

STATE = ListenerSettings(ListenerLimits(), None)
CONFIG = ListenerConfig(lambda: STATE)


class Idle(Lifecycle):
    """A process that does nothing."""


async def application(scope: object, receive: object, send: object) -> None:
    raise AssertionError


@pytest.fixture(autouse=True)
def _daphne_server() -> Iterator[None]:
    before = vars(daphne.cli.CommandLineInterface)["server_class"]
    yield
    daphne.cli.CommandLineInterface.server_class = before


def started(*arguments: str, **keywords: object) -> DaphneIntegration:
    install(CONFIG, Idle())
    return daphne.cli.CommandLineInterface().server_class(application=application, endpoints=["tcp:0"], **keywords)


def test_the_command_makes_its_server_after_the_application_is_imported() -> None:
    source = inspect.getsource(daphne.cli.CommandLineInterface.run)
    assert 0 < source.index("self.load_asgi_app(") < source.index("self.server_class(") < source.index("self.server.run()")
    assert daphne.cli.CommandLineInterface.server_class is daphne.server.Server


def test_install_sets_gate_server() -> None:
    server = started(application_close_timeout=3)
    assert isinstance(server, DaphneIntegration)
    assert server.abort_start is False
    assert server.context.grace_seconds == 3


def test_unsupported_daphne_version_is_a_config_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daphne, "__version__", "5.0.0")
    with pytest.raises(ConfigError, match=r"gate requires Daphne 4\.2\.x, but 5\.0\.0"):
        install(CONFIG, Idle())
    assert daphne.cli.CommandLineInterface.server_class is daphne.server.Server


def test_option_without_effect_exits() -> None:
    with pytest.raises(SystemExit) as ended:
        started(ping_interval=7, root_path="/x")
    lines = str(ended.value).splitlines()
    assert [line.partition(" has no effect")[0] for line in lines] == [
        "startup failed: daphne --ping-interval",
        "startup failed: daphne --root-path",
    ]


def test_http_timeout_bounds_response_after_reload() -> None:
    states = [STATE]
    install(ListenerConfig(lambda: states[-1]), Idle())
    server = daphne.cli.CommandLineInterface().server_class(application=application, endpoints=["tcp:0"], http_timeout=7)
    assert server.context.get_settings().limits == replace(ListenerLimits(), write_timeout=7.0)
    states.append(ListenerSettings(ListenerLimits(read_timeout=1.0), None))
    assert server.context.get_settings().limits == ListenerLimits(read_timeout=1.0, write_timeout=7.0)
    assert started().context.get_settings() is STATE


@pytest.mark.parametrize("endpoint", ["tcp:no-number", "ssl:0:privateKey=/not/there:certKey=/not/there", "unix:/not/there/socket"])
def test_unavailable_endpoint_is_one_error_line(endpoint: str) -> None:
    server = started()
    server.endpoints = [endpoint]
    with pytest.raises(ConfigError) as refused:
        server._open(ChannelFactory(server.context, Idle().stop))
    (problem,) = refused.value.problems
    assert "\n" not in str(problem)
    assert endpoint.partition(":")[0] in str(problem)


def test_an_endpoint_agrees_on_http_1_1() -> None:
    """Without any protocol Twisted (26.4) refuses every client that offers some, browsers first."""
    assert ChannelFactory(started().context, Idle().stop).acceptableProtocols() == [b"http/1.1"]
