"""One wrk sample of a candidate, its cost, and the selection of valid samples."""

import re
import resource
import statistics
import subprocess
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from bench.support.harness import pin
from bench.support.process_stats import CoreTime, cpu_seconds

# A sample is valid if other processes used less than this share of its cores.
MAX_BACKGROUND_LOAD = 0.08
MIN_SAMPLES = 3
CONNECTIONS = 32

_REPORT = {
    "requests": re.compile(r"(\d+) requests in [\d.]+(?:us|ms|s|m|h), "),
    "rate": re.compile(r"Requests/sec:\s+([\d.]+)"),
    "p50": re.compile(r"50%\s+([\d.]+)(us|ms|s|m)\b"),
    "p99": re.compile(r"99%\s+([\d.]+)(us|ms|s|m)\b"),
    "transfer": re.compile(r"Transfer/sec:\s+([\d.]+)([KMGT]?)B"),
}
_MILLISECONDS = {"us": 0.001, "ms": 1.0, "s": 1000.0, "m": 60_000.0}
_MEBIBYTES = {"": 2**-20, "K": 2**-10, "M": 1.0, "G": 2**10, "T": 2**20}


class Failed(ValueError):
    """Not every request succeeded."""


@dataclass(frozen=True, slots=True)
class Report:
    """Output of wrk: requests, requests/s, milliseconds, MiB/s."""

    requests: int
    rate: float
    p50: float
    p99: float
    transfer: float

    @classmethod
    def read(cls, text: str) -> "Report":
        found = {name: pattern.search(text) for name, pattern in _REPORT.items()}
        if not all(found.values()) or "Non-2xx" in text or "Socket errors" in text:
            raise Failed(text)
        p50, p99 = (float(found[name][1]) * _MILLISECONDS[found[name][2]] for name in ("p50", "p99"))
        transfer = float(found["transfer"][1]) * _MEBIBYTES[found["transfer"][2]]
        return cls(int(found["requests"][1]), float(found["rate"][1]), p50, p99, transfer)


@dataclass(frozen=True, slots=True)
class Sample:
    rate: float  # requests/s
    p50: float  # milliseconds
    p99: float
    microseconds: float  # CPU time per request, of the candidate's processes
    transfer: float  # MiB/s
    microseconds_each_mebibyte: float
    others: float  # 0 to 1: share of the cores used by other processes

    @property
    def is_quiet(self) -> bool:
        return self.others < MAX_BACKGROUND_LOAD


@dataclass(frozen=True, slots=True)
class Figure:
    """Median of several samples, with their spread."""

    median: float
    minimum: float
    maximum: float

    @classmethod
    def from_values(cls, values: Iterable[float]) -> "Figure":
        found = list(values)
        return cls(statistics.median(found), min(found), max(found))


def valid_samples(samples: Sequence[Sample]) -> tuple[list[Sample], bool]:
    """Return (the undisturbed samples, True), or (the quietest, False) if they are too few."""
    quiet = [sample for sample in samples if sample.is_quiet]
    if len(quiet) >= MIN_SAMPLES:
        return quiet, True
    return sorted(samples, key=lambda sample: sample.others)[:MIN_SAMPLES], False


def take_sample(process: int, shared_processes: Collection[int], cores: Collection[int], arguments: Sequence[str], seconds: int) -> Sample:
    """Load `process` for `seconds`; `arguments` are wrk's, ending with the URL. `shared_processes` include the upstream."""

    def measured_load() -> float:
        return sum(map(cpu_seconds, shared_processes)) + _ended_children()

    before, machine, others = cpu_seconds(process), CoreTime.sample(cores), measured_load()
    started = time.monotonic()
    report = wrk(arguments, seconds)
    elapsed = time.monotonic() - started
    used = cpu_seconds(process) - before
    share = CoreTime.sample(cores).background_load(machine, used + measured_load() - others)
    mebibytes = report.transfer * elapsed
    each_request, each_mebibyte = used / max(1, report.requests), used / max(mebibytes, 1e-9)
    return Sample(report.rate, report.p50, report.p99, each_request * 1e6, report.transfer, each_mebibyte * 1e6, share)


def wrk(arguments: Sequence[str], seconds: int) -> Report:
    command = ["wrk", "-t1", "--latency", "--timeout", "20s", f"-d{seconds}s", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, preexec_fn=lambda: pin(1))
    return Report.read(done.stdout)


def _ended_children() -> float:
    """Return wrk's CPU time after it has ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
