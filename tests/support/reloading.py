"""Configuration changes of a running gate, which wait until gate has logged the result."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.support.gate import RunningGate

RELOADED = "configuration reloaded"
_TAKES_TIME, _ACCEPTED = "waiting for envoy to apply clusters", "envoy configuration applied"


def replace(path: Path, content: bytes) -> None:
    new = path.with_suffix(".new")
    new.write_bytes(content)
    new.replace(path)


def rewrite(path: Path, **changes: object) -> None:
    config = yaml.safe_load(path.read_text()) | changes
    replace(path, yaml.safe_dump({key: value for key, value in config.items() if value is not None}).encode())


@contextmanager
def wait_for_event(gate: RunningGate, event: str) -> Iterator[list[dict[str, Any]]]:
    """Wait for a log event that the body causes. Afterwards the list contains all events of that name since the start."""
    found: list[dict[str, Any]] = []
    before = len(gate.log)
    yield found
    gate.child.wait_for(lambda: any(entry["event"] == event for entry in gate.log[before:]), f"another {event!r}")
    found += [entry for entry in gate.log[before:] if entry["event"] == event]


def reload(gate: RunningGate, **changes: object) -> None:
    """Reload and wait until the configuration is in force, also in an Envoy."""
    before = len(gate.log)
    with wait_for_event(gate, RELOADED):
        rewrite(gate.config_file, **changes)
    events = [entry["event"] for entry in gate.log]
    if _TAKES_TIME in events[before:]:
        # After that line, because Envoy may just have accepted an earlier version.
        started = len(events) - events[::-1].index(_TAKES_TIME)
        gate.child.wait_for(lambda: any(entry["event"] == _ACCEPTED for entry in gate.log[started:]), f"{_ACCEPTED!r}")
