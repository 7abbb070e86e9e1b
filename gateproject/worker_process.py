"""Worker process: what the supervisor passes to each forked process."""

import socket
from dataclasses import dataclass
from pathlib import Path

PRIMARY = 1


@dataclass(frozen=True, slots=True)
class WorkerProcess:
    """Worker process with its number, 1 to `count`. The first is the primary: it holds data broker, tables, directory and files.

    `directory` is private and has the sockets between the processes; `secret` authenticates them to each other. `listener` is the shared
    socket of `address`. `output_lock` is the file of `foundation.telemetry.output.ProcessLock`. `supervisor_alive` is a pipe that closes
    when the supervisor exits. From the pipe `worker_exits` the primary reads exits of other workers, one JSON object per line.
    """

    number: int
    count: int
    directory: Path
    secret: bytes
    listener: socket.socket
    output_lock: int
    supervisor_alive: int
    worker_exits: int

    @property
    def is_primary(self) -> bool:
        return self.number == PRIMARY

    @property
    def broker_socket(self) -> Path:
        return self.directory / "broker"

    @property
    def workers_socket(self) -> Path:
        return self.directory / "workers"
