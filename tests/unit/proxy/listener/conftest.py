"""The listener in child processes: one with patient timeouts, one with short ones."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.children import Child, free_port, wait_until
from tests.support.fork_server import python
from tests.support.options import make_options
from tests.support.raw_http import RawClient, RawResponse, exchange

CANARY = Path(__file__).with_name("canary.py")
SHORT = {"timeout_read": "200ms", "timeout_write": "600ms", "timeout_idle": "400ms"}


@dataclass(frozen=True, slots=True)
class Canary:
    """The listener under test, and what its application saw."""

    port: int

    def connect(self) -> RawClient:
        return RawClient(self.port)

    def ask(self, data: bytes, method: str = "GET") -> tuple[RawResponse, bool]:
        return exchange(self.port, data, method)

    def control(self, what: str) -> dict:
        return json.loads(self.ask(f"GET /_/{what} HTTP/1.1\r\nHost: canary\r\nConnection: close\r\n\r\n".encode())[0].body)

    @property
    def state(self) -> dict:
        return self.control("state")

    @property
    def calls(self) -> list[dict]:
        return self.state["calls"]

    def wait_for(self, key: str, value: int = 1) -> None:
        wait_until(lambda: self.state[key] >= value, f"{key} is {value}")


def start(directory: Path, *arguments: str, host: str = "127.0.0.1", **settings: object) -> tuple[Child, int]:
    port = free_port()
    make_options(directory, address=f"{host}:{port}", **settings)
    child = python(CANARY, directory / "config.yaml", *arguments)
    child.wait_for_line("ready")
    return child, port


@pytest.fixture(scope="session")
def _patient_child(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    child, port = start(tmp_path_factory.mktemp("patient"))
    with child:
        yield port


@pytest.fixture(scope="session")
def _hasty_child(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    child, port = start(tmp_path_factory.mktemp("hasty"), **SHORT)
    with child:
        yield port


@pytest.fixture
def canary(_patient_child: int) -> Canary:
    canary = Canary(_patient_child)
    canary.control("reset")
    return canary


@pytest.fixture
def hasty(_hasty_child: int) -> Canary:
    """timeout_read 0.2 s, timeout_idle 0.4 s, timeout_write 0.6 s."""
    canary = Canary(_hasty_child)
    canary.control("reset")
    return canary


@pytest.fixture
def hasty_reader(tmp_path: Path) -> Iterator[Canary]:
    """timeout_read 1 s, and nothing else that ends soon: room for a machine that stands still between two pieces of a body."""
    child, port = start(tmp_path, timeout_read="1s")
    with child:
        yield Canary(port)
