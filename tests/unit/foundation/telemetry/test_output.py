"""Writing never blocks, and dropped lines are counted and reported in their place."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from foundation.telemetry import metrics
from foundation.telemetry.output import DROPPED_MESSAGE, NonBlockingOutput, format_drop_notice
from tests.support.children import ROOT, clean_environment, wait_until


class Pipe(NamedTuple):
    reader: int
    writer: int

    def read(self, until: str) -> str:
        """Return the output up to the end of the first chunk that ends with this."""
        data = b""
        while not data.endswith(until.encode()):
            data += os.read(self.reader, 65536)
        return data.decode()


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    reader, writer = os.pipe()
    yield Pipe(reader, writer)
    os.close(reader)
    os.close(writer)


def drop_notice(number: int) -> str:
    return f"({number} dropped)\n"


def dropped() -> float:
    return metrics.log_lines_dropped._value.get()


def test_lines_keep_their_order(pipe: Pipe) -> None:
    output = NonBlockingOutput(pipe.writer, drop_notice=drop_notice)
    for number in range(1000):
        output.write(f"{number}\n")
    assert pipe.read("999\n").splitlines() == [str(number) for number in range(1000)]
    assert output.drain(5)
    print("said", file=output)
    assert pipe.read("said\n") == "said\n"


@pytest.mark.parametrize(("bounds", "line"), [({"max_lines": 100}, "x" * 1000), ({"max_bytes": 100_000}, "x" * 1000)])
def test_paused_reader_blocks_no_writer(pipe: Pipe, bounds: dict[str, int], line: str) -> None:
    output, before = NonBlockingOutput(pipe.writer, drop_notice=drop_notice, **bounds), dropped()
    for number in range(1000):
        output.write(f"{number} {line}\n")
        output.flush()
    assert 600 < (lost := int(dropped() - before)) < 1000
    assert not output.drain(0.05)
    read = ""
    while not output.drain(0.01):
        read += os.read(pipe.reader, 10_000).decode()
    output.write("again\n")
    lines, number = (read + pipe.read("again\n")).splitlines(), 0
    for text in lines[:-1]:  # each line is there in its order, or counted by the notice in its place
        number += int(text.strip("(").split()[0]) if "dropped)" in text else 1
        assert "dropped)" in text or text == f"{number - 1} {line}"
    assert number == 1000
    assert int(dropped() - before) == lost


def test_lost_lines_are_reported_where_they_are_missing(pipe: Pipe) -> None:
    output = NonBlockingOutput(pipe.writer, drop_notice=drop_notice, max_lines=10)
    for number in range(300):  # ten of them are more than the pipe takes
        output.write(f"{number} {'x' * 20_000}\n")
    read = ""
    while "dropped)" not in read:
        read += os.read(pipe.reader, 10_000).decode()
        output.write("after\n")
    while not output.drain(0.01):
        read += os.read(pipe.reader, 1000).decode()
    output.write("end\n")
    lines = (read + pipe.read("end\n")).splitlines()
    at = next(at for at, line in enumerate(lines) if "dropped)" in line)
    assert "after" not in lines[:at]
    assert all(line in ("after", "end") or "dropped)" in line for line in lines[at + 1 :])


def test_pipe_without_reader_blocks_no_writer() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    output, before = NonBlockingOutput(writer, drop_notice=drop_notice), dropped()
    output.write("lost\n")
    assert output.drain(5)
    assert dropped() - before == 1
    os.close(writer)


def test_a_descriptor_that_does_not_block_loses_nothing(pipe: Pipe) -> None:
    os.set_blocking(pipe.writer, False)
    output = NonBlockingOutput(pipe.writer, drop_notice=drop_notice)
    for number in range(200):
        output.write(f"{number} {'x' * 1000}\n")
    assert len(pipe.read(f"199 {'x' * 1000}\n").splitlines()) == 200


def test_the_line_about_dropped_lines_is_like_every_other() -> None:
    line = json.loads(format_drop_notice(7))
    assert (line["event"], line["level"], line["lines"]) == (DROPPED_MESSAGE, "warning", 7)
    assert line["time"].endswith("Z")


SPEAK = "import sys, logging\nfrom foundation.telemetry.output import install_non_blocking_output\ninstall_non_blocking_output()\n"


@pytest.mark.parametrize(
    ("last", "written", "status"),
    [
        ("sys.exit('not started: why')", "not started: why", 1),
        ("raise ValueError('a defect')", "ValueError: a defect", 1),
        ("print('good bye')", "good bye", 0),
        ("from foundation.telemetry.output import drain_output as end; import os; print('good bye'); end(); os._exit(3)", "good bye", 3),
        ("import threading; threading.Thread(target=lambda: 1 / 0).start()", "ZeroDivisionError", 0),
    ],
)
def test_final_output_is_written(last: str, written: str, status: int) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", SPEAK + last], capture_output=True, text=True, cwd=ROOT, env=clean_environment(), timeout=60, check=False
    )
    assert ended.returncode == status
    assert written in ended.stdout + ended.stderr


def test_unread_process_exits_anyway() -> None:
    """Neither is read."""
    many = "for _ in range(1000): print('x' * 1000); print('x' * 1000, file=sys.stderr)\n"
    pipes = [os.pipe(), os.pipe()]
    child = subprocess.Popen(
        [sys.executable, "-c", SPEAK + many], stdout=pipes[0][1], stderr=pipes[1][1], cwd=ROOT, env=clean_environment()
    )
    try:
        wait_until(lambda: child.poll() is not None, "it ends")
        assert child.returncode == 0
    finally:
        child.kill()
        child.wait()
        for descriptor in (*pipes[0], *pipes[1]):
            os.close(descriptor)
