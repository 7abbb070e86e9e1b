"""The configuration of a running gate is changed, and the test goes on when gate has said what it makes of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.support.gate import RunningGate

RELOADED = "configuration reloaded"
_TAKES_TIME, _TAKEN = "waiting for envoy to apply clusters", "envoy configuration applied"


def replace(path: Path, content: bytes) -> None:
    new = path.with_suffix(".new")
    new.write_bytes(content)
    new.replace(path)


def rewrite(path: Path, **changes: object) -> None:
    config = yaml.safe_load(path.read_text()) | changes
    replace(path, yaml.safe_dump({key: value for key, value in config.items() if value is not None}).encode())


@contextmanager
def hears(gate: RunningGate, event: str) -> Iterator[list[dict[str, Any]]]:
    """What is done inside brings the event about; afterwards the list holds all of that name since then."""
    found: list[dict[str, Any]] = []
    before = len(gate.log)
    yield found
    gate.child.wait_for(lambda: any(entry["event"] == event for entry in gate.log[before:]), f"another {event!r}")
    found += [entry for entry in gate.log[before:] if entry["event"] == event]


def reload(gate: RunningGate, **changes: object) -> None:
    """It is in force, and an Envoy has all that follows from it."""
    before = len(gate.log)
    with hears(gate, RELOADED):
        rewrite(gate.config_file, **changes)
    events = [entry["event"] for entry in gate.log]
    if _TAKES_TIME in events[before:]:
        # After that line: it may have taken what went before just now.
        begun = len(events) - events[::-1].index(_TAKES_TIME)
        gate.child.wait_for(lambda: any(entry["event"] == _TAKEN for entry in gate.log[begun:]), f"{_TAKEN!r}")
