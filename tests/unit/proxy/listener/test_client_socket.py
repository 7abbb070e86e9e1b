"""Kernel buffers of slow readers, and connection shutdown."""

from types import SimpleNamespace

from proxy.listener import listener_limits
from proxy.listener.client_socket import ClientSocket
from tests.support.children import wait_until
from tests.support.raw_http import SlowReader


def test_kernel_buffers_little_for_slow_reader(canary):
    """Four MiB of the kernel's memory each, without a bound: two thousand slow readers and no connection of this machine works."""
    with SlowReader(canary.port) as client:
        client.send(b"GET /flood HTTP/1.1\r\nHost: canary\r\n\r\n")
        sent, same = 0, 0

        def has_stopped() -> bool:
            nonlocal sent, same
            now = canary.state["sent"]  # answered by the same loop, after it has polled the flooded socket
            same, sent = (same + 1, sent) if now == sent > 0 else (0, now)
            return same == 5

        wait_until(has_stopped, "the application waits")
        # Twice what may be unsent (the kernel counts in pieces of 64 KiB), one write of the application, and the client's window.
        assert sent <= 2 * listener_limits.NOTSENT_LOWAT_BYTES + 3 * 65536


def test_both_directions_end_below_tls():
    closed = []
    plain = SimpleNamespace(loseConnection=lambda: closed.append("plain"))
    client = ClientSocket(plain)
    client.close()
    assert closed == ["plain"]
