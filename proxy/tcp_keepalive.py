"""TCP keep-alive: lets the kernel find a peer that is gone without a word, where nobody says anything for long."""

import socket

# Levels, options and values of a socket: a peer that is gone is found after about two minutes.
OPTIONS = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4),
)


def enable_tcp_keepalive(sock: socket.socket | None) -> None:
    """Switch TCP keep-alive on; nothing where there is no TCP socket.  Of one that listens, all connections have it (Linux)."""
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    for level, option, value in OPTIONS:
        sock.setsockopt(level, option, value)
