"""How long until gate asks the first person to sign in?

    python -m bench.pages.first_minutes [--wheels FOLDER]

In an empty virtual environment: the wheel is installed (from FOLDER, or by pip's own cache and index; one round before fills the cache),
a configuration is written by `gate init --answers`, served until a browser's first request is led to the sign-in, and checked with ten
routes.  Goals: 60 s from the environment to that answer, 3 s until `gate run` gives it, 1 s for `gate check`.  Beside each time is that of
the processor: what a quiet machine takes at least.  `python -X importtime` says where it goes.
"""

import argparse
import http.client
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from bench.support.rig import free_port

ROOT = Path(__file__).parents[2]
DOMAIN = "first.localhost"
ROUTES = 10
ROUNDS = 3
GOALS = {"install": 60.0, "check": 1.0, "run": 3.0, "all": 60.0}
WORDS = {
    "install": "a virtual environment with the wheel",
    "run": "gate run, until the first redirect",
    "check": "gate check, ten routes",
    "all": "from nothing to the first redirect",
}
MOST = 120.0  # seconds for anything


@dataclass(frozen=True, slots=True)
class Span:
    """Time that something took, and that of the processor in its processes: seconds."""

    wall: float
    processor: float


def timed(command: Sequence[str | Path], where: Path) -> Span:
    """Run a command to its end; its output is shown where it fails."""
    before, began = os.times(), time.monotonic()
    done = subprocess.run([str(part) for part in command], cwd=where, capture_output=True, text=True, timeout=MOST)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return Span(time.monotonic() - began, _of_children(before))


def _of_children(before: os.times_result) -> float:
    now = os.times()
    return now.children_user - before.children_user + now.children_system - before.children_system


def install(where: Path, wheel: Path, wheels: Path | None) -> Span:
    environment = timed([sys.executable, "-m", "venv", where / "venv"], where)
    source = [] if wheels is None else ["--no-index", "--find-links", wheels]
    installed = timed([where / "venv/bin/pip", "install", "--quiet", *source, wheel], where)
    return Span(environment.wall + installed.wall, environment.processor + installed.processor)


def configure(where: Path) -> int:
    """Write a configuration of ten routes; the port of `address`."""
    port, answers = free_port(), where / "answers.yaml"
    answers.write_text(
        f"domain: {DOMAIN}\ncertificates: balancer\naddress: 127.0.0.1:{port}\nissuer: http://127.0.0.1:9\nclient_id: a\nclient_secret: b\n"
        "upstream: http://127.0.0.1:9\nwho: everyone\n"
    )
    timed([where / "venv/bin/gate", "init", "--offline", "--answers", answers, where], where)
    path = where / "config.yaml"
    settings = yaml.safe_load(path.read_text())
    (route,) = settings["policy"]
    settings |= {"metrics_address": f"127.0.0.1:{free_port()}", "grpc_address": f"127.0.0.1:{free_port()}"}
    settings["policy"] = [route, *({**route, "from": f"https://app{number}.{DOMAIN}"} for number in range(1, ROUTES))]
    path.write_text(yaml.safe_dump(settings))
    return port


def first_redirect(where: Path, port: int) -> Span:
    """From the start of `gate run` until a browser is led to the sign-in."""
    before, began = os.times(), time.monotonic()
    with (where / "gate.log").open("w") as log:
        gate = subprocess.Popen([where / "venv/bin/gate", "run", "-config", "config.yaml"], cwd=where, stdout=log, stderr=log)
        try:
            while _status(port) != 302:
                if gate.poll() is not None or time.monotonic() - began > MOST:
                    sys.exit((where / "gate.log").read_text())
                time.sleep(0.01)
            wall = time.monotonic() - began
        finally:
            gate.terminate()
            gate.wait(MOST)
    return Span(wall, _of_children(before))


def _status(port: int) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/", headers={"Host": f"app.{DOMAIN}", "Accept": "text/html"})
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()


def measured(where: Path, wheel: Path, wheels: Path | None) -> dict[str, Span]:
    began = time.monotonic()
    spans = {"install": install(where, wheel, wheels)}
    port = configure(where)
    spans["run"] = first_redirect(where, port)
    spans["all"] = Span(time.monotonic() - began, 0.0)
    checks = [timed([where / "venv/bin/gate", "check", "-config", "config.yaml"], where) for _ in range(ROUNDS)]
    spans["check"] = min(checks, key=lambda span: span.wall)
    again = [spans["run"], *(first_redirect(where, port) for _ in range(ROUNDS - 1))]
    return {**spans, "run": min(again, key=lambda span: span.wall)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--wheels", type=Path, help="a folder with the wheels of everything that gate needs")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="first-minutes-") as directory:
        where = Path(directory)
        timed([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", where, ROOT], where)
        (wheel,) = where.glob("gate_proxy-*.whl")
        if options.wheels is None:
            (where / "before").mkdir()
            install(where / "before", wheel, None)
        (where / "gate").mkdir()
        spans = measured(where / "gate", wheel, options.wheels)
        size = sum(path.stat().st_size for path in (where / "gate/venv").rglob("*") if path.is_file() and not path.is_symlink())
        print(f"the wheel: {wheel.stat().st_size / 2**20:.1f} MiB, the environment with all it needs: {size / 2**20:.0f} MiB")
    for name, span in spans.items():
        used = f", {span.processor:.1f} s of the processor" if span.processor else ""
        said = "ok" if span.wall <= GOALS[name] else "OVER"
        print(f"{WORDS[name]:40} {span.wall:6.1f} s{used} (goal {GOALS[name]:.0f} s: {said})")
    return int(any(span.wall > GOALS[name] for name, span in spans.items()))


if __name__ == "__main__":
    sys.exit(main())
