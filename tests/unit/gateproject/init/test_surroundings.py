"""What a first start would stumble over is told before."""

import errno
import socket
from pathlib import Path

import pytest

from config.options import Options
from foundation.errors import ConfigError, Problem
from gateproject.init import surroundings
from tests.support.children import free_port
from tests.support.options import make_options


def options(directory: Path, port: int) -> Options:
    return make_options(directory, address=f"127.0.0.1:{port}", authenticate_service_url="https://authenticate.localhost")


def test_where_all_is_well_nothing_is_said(tmp_path: Path) -> None:
    assert list(surroundings.notes(options(tmp_path, free_port()))) == []


def test_a_taken_port_is_told_with_how_to_find_who_has_it(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        (note,) = surroundings.notes(options(tmp_path, port))
    assert note == f"address: port {port} is taken by another program (`ss -ltnp 'sport = :{port}'` names it)"


def test_a_port_that_needs_a_privilege_is_told_with_who_gives_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> socket.socket:
        raise ConfigError([Problem("address", "no")]) from OSError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(surroundings, "bind", refused)
    (note,) = surroundings.notes(options(tmp_path, 443))
    assert note.startswith("address: port 443 needs a privilege: ")
    assert "ip_unprivileged_port_start=443" in note


def test_another_trouble_has_its_own_words(tmp_path: Path) -> None:
    elsewhere = make_options(tmp_path, address="192.0.2.1:8443", authenticate_service_url="https://authenticate.localhost")
    (note,) = surroundings.notes(elsewhere)
    assert note.startswith("address: can't listen on 192.0.2.1:8443: cannot assign requested address")


def test_a_host_without_an_address_is_named(tmp_path: Path) -> None:
    unknown = make_options(tmp_path, address=f"127.0.0.1:{free_port()}", authenticate_service_url="https://authenticate.invalid")
    (note,) = surroundings.notes(unknown)
    assert note == "authenticate.invalid has no address here yet: make a DNS record for it that leads to gate"
