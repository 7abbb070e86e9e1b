"""Invalid arguments are reported before a tunnel is opened."""

import socket

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("db.example.com",), "host and a port"),
        (("db.example.com:22/x",), "host and a port"),
        (("ann@db.example.com:22",), "user name"),
        (("db.example.com:0",), "port"),
        (("db.example.com:22", "--url", "http://db.example.com"), "must be https://host"),
        (("db.example.com:22", "--url", "https://db.example.com/x"), "must be https://host"),
        (("db.example.com:22", "--listen", "nowhere"), "--listen nowhere"),
        (("db.example.com:22", "--ca", "/nowhere"), "--ca /nowhere"),
        (("db.example.com:22", "--token-file", "/nowhere"), "--token-file /nowhere can't be read"),
    ],
)
def test_contradictory_arguments_are_refused(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(CommandError, match=message):
        call_command("tunnel", *arguments)


def test_a_file_without_a_token_and_a_taken_port_are_named(tmp_path) -> None:
    (tmp_path / "token").write_text("a b\n")
    with pytest.raises(CommandError, match="contains no token"):
        call_command("tunnel", "db.example.com:22", "--token-file", str(tmp_path / "token"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(CommandError, match=f"--listen {address}: .*in use"):
            call_command("tunnel", "db.example.com:22", "--listen", address)
