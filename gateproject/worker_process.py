"""Worker process: what each of several processes of one gate is given by the supervisor that forks them."""

import socket
from dataclasses import dataclass
from pathlib import Path

FIRST = 1


@dataclass(frozen=True, slots=True)
class WorkerProcess:
    """Worker process, by its number, 1 to `count`.  The first keeps what there is once: data broker, tables, directory, files.

    `directory` is ours alone and holds the sockets between them; `secret` is what they know each other by; `listener` is that of
    `address`, which all accept from; `turns` is the file of `foundation.telemetry.output.Turn`; at `life` a reader sees the end of the
    supervisor; from `news` the first reads what became of the others, a JSON object a line.
    """

    number: int
    count: int
    directory: Path
    secret: bytes
    listener: socket.socket
    turns: int
    life: int
    news: int

    @property
    def is_first(self) -> bool:
        return self.number == FIRST

    @property
    def broker_socket(self) -> Path:
        return self.directory / "broker"

    @property
    def workers_socket(self) -> Path:
        return self.directory / "workers"
