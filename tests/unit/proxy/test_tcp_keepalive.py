"""A peer that vanished without a word is looked for."""

import socket

from proxy.tcp_keepalive import enable_tcp_keepalive


def test_a_vanished_peer_is_looked_for():
    with socket.socket() as sock:
        enable_tcp_keepalive(sock)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60


def test_non_tcp_socket_is_left_unchanged():
    enable_tcp_keepalive(None)
    with socket.socket(socket.AF_UNIX) as sock:
        enable_tcp_keepalive(sock)
