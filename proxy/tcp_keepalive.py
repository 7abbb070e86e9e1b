"""TCP keep-alive: detects a peer that has vanished from an idle connection."""

import socket

# (level, option, value): the kernel detects a vanished peer after about two minutes.
OPTIONS = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4),
)


def enable_tcp_keepalive(sock: socket.socket | None) -> None:
    """Enable keep-alive on a TCP socket; do nothing for others.  Accepted connections inherit it from a listening socket (Linux)."""
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    for level, option, value in OPTIONS:
        sock.setsockopt(level, option, value)
