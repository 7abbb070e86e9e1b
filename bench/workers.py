"""How many requests does a second of processor time carry, with one process and with two, and what does each further one weigh?

    python -m bench.workers

wrk -c32, nginx answering 1 KiB, with a session; runs of one and of several in turns.  The load generator and the upstream use the cores,
too, so the figure is requests per second of the processor time of gate's own processes, and its ratio: N cores carry N times as many
where it stays 1.  Goal: 0.85, which is 1.7 times on two cores.  Rates are printed beside it.  PSS is memory with shared pages divided.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from bench.rig import free_port, gate_settings, signed_in_cookie, start_nginx, start_provider, wait_for

GOAL = 0.85
_TICKS = os.sysconf("SC_CLK_TCK")
ROOT = Path(__file__).parent.parent


@dataclass
class Gate:
    workers: int
    port: int
    process: subprocess.Popen[bytes]
    cookie: str = ""
    rates: list[float] = field(default_factory=list)
    per_second: list[float] = field(default_factory=list)  # requests in a second of processor time
    shares: list[float] = field(default_factory=list)

    def processes(self) -> list[int]:
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [self.process.pid, *map(int, children)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        upstream, provider = start_nginx(stack, directory), start_provider(stack)
        gates = [start(stack, directory / str(workers), provider, upstream, workers) for workers in (1, arguments.workers)]
        for run in range(arguments.runs + 1):
            for gate in gates:
                load(gate, arguments.seconds if run else 1)
                if not run:
                    for figures in (gate.rates, gate.per_second, gate.shares):
                        figures.clear()
        for gate in gates:
            weighed = " ".join(f"{pss(id) / 1024:.0f}" for id in gate.processes())
            print(
                f"workers: {gate.workers}  {statistics.median(gate.per_second):6.0f} requests/processor second  "
                f"{statistics.median(gate.rates):6.0f} requests/s  PSS (command first) {weighed} MiB  "
                f"busiest process {statistics.median(gate.shares):.2f} of the processor time"
            )
        one, several = (statistics.median(gate.per_second) for gate in gates)
        print(f"ratio {several / one:.2f}, goal {GOAL}: {arguments.workers} cores carry {arguments.workers * several / one:.2f} times one")
    sys.exit(several / one < GOAL)


def start(stack: ExitStack, directory: Path, provider: str, upstream: str, workers: int) -> Gate:
    directory.mkdir()
    port = free_port()
    file = directory / "config.yaml"
    file.write_text(yaml.safe_dump({**gate_settings(directory, port, provider, upstream), "workers": workers, "proxy_log_level": "warn"}))
    # All cores are theirs, as they are in use.
    process = subprocess.Popen([sys.executable, "manage.py", "rungate", "-config", str(file)], cwd=ROOT, stdout=subprocess.DEVNULL)
    stack.callback(process.wait)
    stack.callback(process.terminate)
    wait_for(port)
    gate = Gate(workers, port, process)
    while len(gate.processes()) < (1 if workers == 1 else 1 + workers):
        time.sleep(0.1)
    time.sleep(2)  # until all of them listen
    gate.cookie = signed_in_cookie(port)
    return gate


def load(gate: Gate, seconds: int) -> None:
    before = {id: processor_time(id) for id in gate.processes()}
    headers = ("-H", "Host: bench.localhost", "-H", f"Cookie: {gate.cookie}")
    command = ["wrk", "-t1", "-c32", f"-d{seconds}s", *headers, f"http://127.0.0.1:{gate.port}/"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rate, number = re.search(r"Requests/sec:\s+([\d.]+)", said), re.search(r"(\d+) requests in", said)
    if rate is None or number is None or "Non-2xx" in said or "Socket errors" in said:
        sys.exit(f"not every request succeeded\n{said}")
    used = [processor_time(id) - before[id] for id in gate.processes()]
    gate.rates.append(float(rate[1]))
    gate.per_second.append(int(number[1]) / sum(used))
    gate.shares.append(max(used) / sum(used))


def processor_time(id: int) -> float:
    fields = Path(f"/proc/{id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def pss(id: int) -> int:
    """KiB."""
    return int(re.search(r"^Pss:\s+(\d+)", Path(f"/proc/{id}/smaps_rollup").read_text(), re.MULTILINE)[1])


if __name__ == "__main__":
    main()
