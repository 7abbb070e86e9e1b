"""Whose connection it is, as the kernel says of real ones."""

import os
import socket

import pytest

from gateproject.tunnel.socket_owner import ROOT, is_of_another_user
from tests.support.other_user import OTHER, said_by

OURS = os.getuid()


@pytest.fixture
def server():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def test_our_own_connection_is_ours_and_nobody_else_s(server):
    with socket.create_connection(server.getsockname()), server.accept()[0] as accepted:
        assert not is_of_another_user(accepted, OURS)
        # Who runs the tests as root can't be told from what forwards a browser's connection.
        assert is_of_another_user(accepted, OURS + 1) is (OURS != ROOT)


@pytest.mark.parametrize("address", ["127.0.0.1", "::ffff:127.0.0.1"])
def test_what_another_user_opens_is_not_ours(server, address):
    with said_by(server.getsockname()[1], b"x", address) as client, server.accept()[0] as accepted:
        assert accepted.recv(1) == b"x"
        assert is_of_another_user(accepted, OTHER + 1)
        assert not is_of_another_user(accepted, OTHER)
        client.terminate()


def test_who_has_left_is_nobody(server):
    with socket.create_connection(("127.0.0.1", server.getsockname()[1])) as client:
        accepted = server.accept()[0]
    assert client.fileno() == -1
    with accepted:
        assert is_of_another_user(accepted, OURS)
