"""Parameters of a worker process."""

import socket
from pathlib import Path

from gateproject.worker_process import PRIMARY, WorkerProcess


def test_first_process_maintains_singletons() -> None:
    with socket.socket() as listener:
        first, second = (WorkerProcess(number, 2, Path("/tmp/gate-x"), b"secret", listener, 3, 4, 5) for number in (PRIMARY, PRIMARY + 1))
    assert (first.is_primary, second.is_primary) == (True, False)
    assert first.broker_socket == second.broker_socket != first.workers_socket == second.workers_socket
