"""Cost per request of gate and comparable proxies, measured side by side in one run.

    python -m bench.peers --oauth2-proxy PATH --json FILE

All have the same upstream (nginx, 1 KiB), load (wrk -t1 -c32) and signed-in user. The proxy has one core, the load and the upstream the
other. Proxies without sign-in receive gate's Cookie, so that all requests are of similar size.

Samples are taken in turns, with and without TLS, after a check that no proxy allows unauthenticated requests. CPU time is that of the
proxy's processes and is the most reliable figure, because requests/s and latency also depend on the machine and the load. A sample is
valid if other processes used less than MAX_BACKGROUND_LOAD of the cores. A row with too few valid samples uses the quietest and is marked
`~`. Medians, with minimum and maximum in brackets. The exit status is 1 if a goal is missed.
"""

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from bench.support.candidate import Candidate, Turns, equalize_cookies
from bench.support.harness import HOST, start_nginx, start_provider
from bench.support.process_stats import mebibytes
from bench.support.proxies import BARE_ENVOY, EMBEDDED, FORWARDER, PEERS, WORKERS, Stage, apache_modules
from bench.support.wrk_load import Figure, Sample, valid_samples
from foundation.version import version
from tests.support.certs import certificate_files

DOWNLOAD, DOWNLOADS_AT_ONCE = 64 << 20, 4  # bytes
DOWNLOAD_SECONDS, DOWNLOAD_ROUNDS = 1, 3
BUDGET = 340.0  # seconds, after which no optional round starts
COLUMNS = (
    *("processor µs/request", "of bare Envoy", "of gate embedded"),
    *("requests/s", "of bare Envoy", "of gate embedded"),
    *("p50 ms", "p99 ms", "MiB", "download MiB/s", "processor µs/MiB", "others"),
)


@dataclass(frozen=True, slots=True)
class Goal:
    """Goal: `name` reaches at least `least` of `baseline`, in requests/s or in requests per second of CPU time."""

    name: str
    baseline: str
    minimum: float
    is_of_processor: bool = False


GOALS = (
    Goal(EMBEDDED, FORWARDER, 0.75),
    Goal(WORKERS, EMBEDDED, 0.85, is_of_processor=True),
)


@dataclass(frozen=True, slots=True)
class Row:
    """Results of one candidate."""

    name: str
    is_quiet: bool
    others: float  # maximum share of other processes in a valid sample
    rate: Figure
    p50: Figure
    p99: Figure
    microseconds: Figure
    memory: float  # MiB
    download: Figure | None  # MiB/s
    download_microseconds: Figure | None
    is_download_quiet: bool
    all_samples: tuple[Sample, ...]  # including invalid samples

    @classmethod
    def from_candidate(cls, candidate: Candidate, memory: float) -> Self:
        samples, is_quiet = valid_samples(candidate.samples)
        downloads, is_download_quiet = valid_samples(candidate.downloads)

        def figure(of: Callable[[Sample], float]) -> Figure:
            return Figure.from_values(map(of, samples))

        return cls(
            candidate.name,
            is_quiet,
            max(sample.others for sample in samples),
            figure(lambda sample: sample.rate),
            figure(lambda sample: sample.p50),
            figure(lambda sample: sample.p99),
            figure(lambda sample: sample.microseconds),
            memory,
            Figure.from_values(sample.transfer for sample in downloads) if downloads else None,
            Figure.from_values(sample.microseconds_each_mebibyte for sample in downloads) if downloads else None,
            is_download_quiet,
            tuple(candidate.samples),
        )


def main() -> None:
    arguments = parsed()
    if missing := [command for command in ("wrk", "nginx") if shutil.which(command) is None]:
        sys.exit(f"missing: {', '.join(missing)} (apt-get install wrk nginx-light)")
    paths = {"oauth2-proxy": arguments.oauth2_proxy, "pomerium": arguments.pomerium, "envoy": arguments.envoy, "apache2": arguments.apache}
    executables = find_executables(paths, arguments.only)
    result = {**machine(), **versions(executables)}
    print("\n".join(f"{name}: {value}" for name, value in result.items()), flush=True)
    until, is_reached = time.monotonic() + BUDGET, True
    for number, scheme in enumerate(arguments.schemes):
        share = (until - time.monotonic()) / (len(arguments.schemes) - number)
        rows = measure(scheme, executables, arguments, time.monotonic() + share)
        result[scheme] = [asdict(row) for row in rows]
        print(f"\n{'With TLS' if scheme == 'https' else 'Without TLS'}\n", *table(rows), "", sep="\n", flush=True)
        for text, is_missed in goals(rows):
            print(text, flush=True)
            is_reached &= not is_missed
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")
    sys.exit(not is_reached)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("oauth2-proxy", "pomerium", "envoy", "apache"):
        parser.add_argument(f"--{name}", metavar="PATH", help="without it, the one on PATH")
    parser.add_argument("--rounds", type=int, default=5, help="quiet samples of each that are aimed at")
    parser.add_argument("--seconds", type=int, default=2, help="of a sample")
    parser.add_argument("--schemes", nargs="*", choices=("http", "https"), default=("http", "https"))
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=[peer.name for peer in PEERS], help="of the names in the table")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser.parse_args()


def find_executables(paths: dict[str, str | None], only: list[str] | None) -> dict[str, str]:
    """Return the installed proxies by name; print how to install the others."""
    found = {}
    for peer in PEERS:
        executable = peer.found(paths)
        if executable is None or (peer.program == "apache2" and apache_modules(executable) is None):
            print(f"{peer.name}: not found: {peer.install_hint}")
        elif only is None or peer.name in only:
            found[peer.name] = executable
    return found


def machine() -> dict[str, str]:
    model = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    system = f"{model[1] if model else platform.machine()}, {platform.system()} {platform.release()}"
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "machine": f"{len(os.sched_getaffinity(0))} cores, {system}",
        "gate": f"{version()}, Python {platform.python_version()}",
    }


def versions(executables: dict[str, str]) -> dict[str, str]:
    commands = {peer.program: (executables[peer.name], *peer.version) for peer in PEERS if peer.program and peer.name in executables}
    commands |= {"nginx": ("nginx", "-v"), "wrk": ("wrk", "-v")}
    outputs = {name: subprocess.run(command, capture_output=True, text=True) for name, command in commands.items()}
    return {name: (done.stdout + done.stderr).strip().splitlines()[0] for name, done in outputs.items()}


def staged(stack: ExitStack, scheme: str) -> tuple[Stage, list[int]]:
    """Start the shared processes, and return them with the environment."""
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    directory.chmod(0o755)  # Apache's worker processes run as another user
    (directory / "files").mkdir()
    with (directory / "files" / "large").open("wb") as file:
        file.truncate(DOWNLOAD)
    upstream = start_nginx(stack, directory)
    stage = Stage(directory, upstream, start_provider(stack), certificate_files(directory, HOST), scheme)
    return stage, [int((directory / "nginx.pid").read_text())]


def measure(scheme: str, executables: dict[str, str], arguments: argparse.Namespace, until: float) -> list[Row]:
    with ExitStack() as stack:
        stage, shared_processes = staged(stack, scheme)
        candidates = [peer.candidate(stack, stage, executables[peer.name]) for peer in PEERS if peer.name in executables]
        equalize_cookies(candidates)
        Turns(1, DOWNLOAD_SECONDS, until, shared_processes).take_downloads(candidates, "/files/large", DOWNLOADS_AT_ONCE, DOWNLOAD_ROUNDS)
        Turns(arguments.rounds, arguments.seconds, until, shared_processes).take(candidates)
        print_warnings(stage.directory)
        return [Row.from_candidate(candidate, mebibytes(candidate.process)) for candidate in candidates if candidate.samples]


def print_warnings(directory: Path) -> None:
    """Print warnings that gate logged during the measurement."""
    for output in sorted(directory.glob("gate-*/output")):
        if lines := [line for line in output.read_text().splitlines() if '"level": "info"' not in line]:
            print(f"{output.parent.name} warned:", *lines[:10], sep="\n", file=sys.stderr, flush=True)


def table(rows: Iterable[Row]) -> Iterator[str]:
    """Return the lines of a Markdown table."""
    by_name = {row.name: row for row in rows}
    envoy, embedded = by_name.get(BARE_ENVOY), by_name.get(EMBEDDED)
    yield f"| | {' | '.join(COLUMNS)} |"
    yield "|---|" + "---:|" * len(COLUMNS)
    for row in by_name.values():
        cells = [
            row.name,
            spread(row.microseconds, row.is_quiet),
            *(times(row, base, lambda each: each.microseconds) for base in (envoy, embedded)),
            spread(row.rate, row.is_quiet),
            *(times(row, base, lambda each: each.rate) for base in (envoy, embedded)),
            f"{row.p50.median:.1f}",
            f"{row.p99.median:.1f}",
            f"{row.memory:.0f}",
            *(spread(each, row.is_download_quiet) if each else "" for each in (row.download, row.download_microseconds)),
            f"{row.others:.0%}",
        ]
        yield "| " + " | ".join(cells) + " |"


def spread(figure: Figure, is_quiet: bool) -> str:
    return f"{figure.median:,.0f} ({figure.minimum:,.0f}-{figure.maximum:,.0f}){'' if is_quiet else ' ~'}"


def times(row: Row, base: Row | None, select: Callable[[Row], Figure]) -> str:
    return f"{select(row).median / select(base).median:.2f}" if base and select(base).median else ""


def goals(rows: Iterable[Row]) -> Iterator[tuple[str, bool]]:
    """Yield (description, is missed) for goals whose candidates were measured. A disturbed row misses none."""
    by_name = {row.name: row for row in rows}
    for goal in GOALS:
        if goal.name in by_name and goal.baseline in by_name:
            one, base = by_name[goal.name], by_name[goal.baseline]
            if goal.is_of_processor:
                reached, unit = base.microseconds.median / one.microseconds.median, "requests in a second of processor time"
            else:
                reached, unit = one.rate.median / base.rate.median, "requests/s"
            is_conclusive = one.is_quiet and base.is_quiet
            description = (
                f"{goal.name}: {reached:.2f} of {goal.baseline}'s {unit} (goal: {goal.minimum}{'' if is_conclusive else ', not judged'})"
            )
            yield description, is_conclusive and reached < goal.minimum


if __name__ == "__main__":
    main()
