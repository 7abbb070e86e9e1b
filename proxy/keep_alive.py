"""TCP keep-alive: lets the kernel find a peer that is gone without a word, where nobody says anything for long."""

import socket

# After about two minutes.
_OPTIONS = ((socket.TCP_KEEPIDLE, 60), (socket.TCP_KEEPINTVL, 15), (socket.TCP_KEEPCNT, 4))


def keep_alive(sock: socket.socket | None) -> None:
    """Switch TCP keep-alive on; nothing where there is no TCP socket.  Of one that listens, all connections have it (Linux)."""
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _OPTIONS:
        sock.setsockopt(socket.IPPROTO_TCP, option, value)
