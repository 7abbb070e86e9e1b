"""Options of Daphne's command: each that this Daphne has counts or is refused, and none contradicts the configuration."""

import inspect
from pathlib import Path
from typing import Any

import daphne.cli
import daphne.server
import pytest

from proxy.listener.daphne_options import OPTIONS, SUPPORTED, parse_options, validate_options
from tests.support.options import make_options

COMMAND = "/usr/bin/daphne"
TCP = ["tcp:port=8000:interface=127.0.0.1"]
SSL = ["ssl:443:privateKey=a:certKey=b"]
# For each option that does nothing here: how it is given, and the setting that does its work.
REFUSED = {
    "proxy_headers_host": (["--proxy-headers", "--proxy-headers-host", "X-Real-IP"], "trusted_proxies"),
    "proxy_headers_port": (["--proxy-headers", "--proxy-headers-port", "X-Real-Port"], "trusted_proxies"),
    "websocket_timeout": (["--websocket_timeout", "60"], "`timeout` of a route"),
    "websocket_connect_timeout": (["--websocket_connect_timeout", "5"], "timeout_read"),
    "websocket_max_message_size": (["--websocket-max-message-size", "9"], "16 MiB"),
    "websocket_max_frame_size": (["--websocket-max-frame-size", "9"], "16 MiB"),
    "ping_interval": (["--ping-interval", "20"], "timeout_idle"),
    "ping_timeout": (["--ping-timeout", "30"], "timeout_idle"),
    "verbosity": (["-v", "2"], "log_level"),
    "access_log": (["--access-log", "/var/log/access"], "proxy_log_level"),
    "log_fmt": (["--log-fmt", "%(message)s"], "gate_debug"),
    "root_path": (["--root-path", "/gate"], "from"),
    "server_name": (["--server-name", "daphne"], "headers"),
}


def options_set(*arguments: str, **keywords: Any) -> dict[str, Any]:
    return parse_options([COMMAND, *arguments, "gateproject.asgi:application"], keywords)


def found(arguments: list[str], endpoints: list[str] = TCP, directory: Path | None = None, **settings: Any) -> list[str]:
    options = make_options(directory, **settings) if directory is not None else None
    return list(validate_options(options_set(*arguments), {}, endpoints, options))


def test_each_option_of_the_installed_daphne_has_its_place() -> None:
    known = vars(daphne.cli.CommandLineInterface().parser.parse_args(["application"]))
    assert set(OPTIONS) == set(known)
    assert {name for name, option in OPTIONS.items() if option.replacement != SUPPORTED} == set(REFUSED)


def test_every_argument_of_daphnes_command_is_known() -> None:
    source = inspect.getsource(daphne.cli.CommandLineInterface.run).partition("self.server_class(")[2]
    names = set(inspect.signature(daphne.server.Server).parameters) - {"application", "endpoints"}
    assert list(validate_options({}, {name: None for name in names if f"{name}=" in source}, TCP, None)) == []
    assert list(validate_options({}, {"new_argument": 1}, TCP, None)) == ["new_argument: unknown option"]


@pytest.mark.parametrize("name", REFUSED)
def test_option_without_effect_is_refused_with_its_replacement(name: str) -> None:
    arguments, setting = REFUSED[name]
    (problem,) = found(arguments)
    assert problem.startswith(f"{OPTIONS[name].flag} has no effect here: ")
    assert setting in problem
    assert "\n" not in problem


@pytest.mark.parametrize(
    "arguments",
    [
        *([], ["-b", "::1", "-p", "0"], ["-u", "/run/gate"], ["--fd", "3"], ["-t", "5"], ["--application-close-timeout", "1"]),
        *(["--access-log", "-"], ["-v", "1"], ["--no-server-name"], ["--root-path", ""]),
    ],
)
def test_accepts_supported_and_noop_options(arguments: list[str]) -> None:
    assert found(arguments) == []


def test_refuses_unknown_option() -> None:
    assert list(validate_options({"quic": True}, {}, TCP, None)) == ["quic: unknown option"]


def test_embedded_command_options_come_from_server_arguments() -> None:
    assert parse_options(["/lib/daphne/__main__.py", "-p", "1", "application"], {}) == {"port": 1, "application": "application"}
    local = {"ping_interval": 20, "ping_timeout": 30, "root_path": "", "proxy_forwarded_proto_header": None, "http_timeout": None}
    for executable in ("program.py", "/lib/pytest/__main__.py"):
        assert parse_options([executable, "--ping-interval", "7"], local) == {}
    changed = {**local, "ping_interval": 7, "proxy_forwarded_proto_header": "X-Forwarded-Proto"}
    assert parse_options(["program.py"], changed) == {"ping_interval": 7, "proxy_headers": "X-Forwarded-Proto"}


@pytest.mark.parametrize("endpoint", ["haproxy:tcp:80", "stdio:", "onion:80"])
def test_other_endpoints_are_refused(endpoint: str) -> None:
    (problem,) = found([], [endpoint])
    assert problem.startswith(f"--endpoint {endpoint.partition(':')[0]}: ")


@pytest.fixture(scope="module")
def configured_tls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    from tests.support.certs import certificate_files

    files = certificate_files(tmp_path_factory.mktemp("tls"), "app.example.com")
    return {"insecure_server": None, "certificate_file": str(files.certificate), "certificate_key_file": str(files.key)}


def test_refuses_two_tls_sources(tmp_path: Path, configured_tls: dict[str, Any]) -> None:
    for endpoints in (SSL, ["tls:/certs:443"], ["unix:/run/gate"], [*TCP, *SSL]):
        assert "insecure_server: true" in found([], endpoints, tmp_path, **configured_tls)[0]
        assert found([], endpoints, tmp_path) == []
    for endpoints in (TCP, ["tcp6:443"], ["fd:fileno=3"], ["systemd:domain=INET:index=0"]):
        assert found([], endpoints, tmp_path, **configured_tls) == []


def test_refuses_option_that_contradicts_a_setting(tmp_path: Path) -> None:
    assert "timeout_write" in found(["-t", "5"], TCP, tmp_path, timeout_write="7s")[0]
    assert found(["-t", "7"], TCP, tmp_path, timeout_write="7s") == []
    assert "trusted_proxies" in found(["--proxy-headers"], TCP, tmp_path)[0]
    assert found(["--proxy-headers"], TCP, tmp_path, trusted_proxies=["127.0.0.1/32"]) == []
    for settings, problems_found in ({}, 1), ({"use_proxy_protocol": True}, 0):
        assert len(found(["--proxy-headers"], ["unix:/run/gate"], tmp_path, trusted_proxies=["127.0.0.1/32"], **settings)) == problems_found
    assert "use_proxy_protocol" in found([], SSL, tmp_path, use_proxy_protocol=True)[0]
    assert found([], TCP, tmp_path, use_proxy_protocol=True) == []
