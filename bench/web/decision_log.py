"""Cost of the decision log when every request is denied, and speed of searches in it.

    python -m bench.web.decision_log

Two gates that differ only in `decision_log_size` deny requests of wrk -t1 -c32, in turns. The goal is 0.95 of the rate without the log,
as the median of the ratios per round, because other load changes more slowly than the rounds. Then 100,000 decisions are searched as in
the admin, by user, by request id, by time; the goal is half a second each.
"""

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import yaml

from bench.support.harness import (
    HOST,
    free_port,
    gate_settings,
    pin,
    signed_in_cookie,
    start_gate,
    start_nginx,
    start_provider,
)

GOAL, SEARCH_GOAL, ROWS = 0.95, 0.5, 100_000
_RATE = re.compile(r"Requests/sec:\s+([\d.]+)")

SEARCH = """
import json, time
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo
from authorize.models import LoggedDecision
from authorize.timeline.timeline_pages import paginate
from authorize.timeline.timeline_filters import search
base = datetime(2027, 1, 1, tzinfo=UTC)
snapshot = json.dumps({{"request": {{"path": "/" + "a" * 800}}}})
rows = (
    LoggedDecision(request_id=f"{{n:032x}}", decided_at=base + timedelta(seconds=n),
        display_name=f"p{{n % 5000}}@example.com", duration_seconds=0.001,
        user_id=f"oidc/{{n % 5000}}", url=f"app{{n % 40}}.example.com/path/{{n}}", client_address=f"192.0.2.{{n % 250}}",
        route_id="r", route_name=f"App {{n % 40}}", outcome="forbidden", reason="none of your groups is listed", snapshot=snapshot)
    for n in range({rows})
)
LoggedDecision.objects.bulk_create(rows, batch_size=500)
for words in ("p4711@example.com", f"{{4711:032x}}", "App 7 192.0.2.7", "after:2027-01-01T10:00 before:2027-01-01T10:05"):
    begins = time.perf_counter()
    page = paginate(search(LoggedDecision.objects.all(), words), "", ZoneInfo("UTC"))
    number = sum(len(hour.rows) for day in page.days for hour in day.hours)
    print(f"{{time.perf_counter() - begins:.3f}} {{number}} {{words}}")
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--seconds", type=int, default=2)
    arguments = parser.parse_args()
    if missing := [command for command in ("wrk", "nginx") if shutil.which(command) is None]:
        sys.exit(f"missing: {', '.join(missing)} (apt-get install wrk nginx-light)")
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        gates = dict(start_gates(stack, directory))
        rates: dict[str, list[float]] = {name: [] for name in gates}
        for name in gates:
            refused(*gates[name], 1)
        for turn in range(arguments.runs):
            for name in (*gates,)[:: 1 if turn % 2 else -1]:  # alternates the order
                rates[name].append(refused(*gates[name], arguments.seconds))
    ratios = [logged / bare for bare, logged in zip(rates["without"], rates["with the log"], strict=True)]
    ratio = statistics.median(ratios)
    for name, each in rates.items():
        print(f"{name:14} {statistics.median(each):8.0f} refusals/s   {' '.join(f'{rate:.0f}' for rate in each)}")
    print(f"ratio {ratio:.3f}, goal {GOAL}   {' '.join(f'{each:.2f}' for each in ratios)}")
    slowest = max(search())
    sys.exit(not (ratio >= GOAL and slowest <= SEARCH_GOAL))


def start_gates(stack: ExitStack, directory: Path) -> Iterator[tuple[str, tuple[int, str]]]:
    provider, upstream = start_provider(stack), start_nginx(stack, directory)
    for name, size in (("without", 0), ("with the log", 50_000)):
        port, place = free_port(), directory / name.replace(" ", "-")
        place.mkdir()
        settings = gate_settings(place, port, provider, upstream)
        settings["policy"] = [
            {"from": f"https://{HOST}", "to": upstream, "path": "/", "allow_any_authenticated_user": True},
            {"from": f"https://{HOST}", "to": upstream, "allowed_groups": ["nobody"]},
        ]
        start_gate(stack, place, {**settings, "decision_log_size": size, "proxy_log_level": "error"}, stdout=subprocess.DEVNULL)
        yield name, (port, signed_in_cookie(port))


def refused(port: int, cookie: str, seconds: int) -> float:
    headers = ["-H", f"Host: {HOST}", "-H", f"Cookie: {cookie}", "-H", "Accept: application/json"]
    command = ["wrk", "-t1", "-c32", f"-d{seconds}s", *headers, f"http://127.0.0.1:{port}/refused"]
    output = subprocess.run(command, capture_output=True, text=True, check=True, preexec_fn=lambda: pin(1)).stdout
    rate, refusals = _RATE.search(output), re.search(r"Non-2xx or 3xx responses: (\d+)", output)
    total = re.search(r"(\d+) requests in", output)
    if rate is None or refusals is None or total is None or refusals[1] != total[1]:
        sys.exit(f"not every request was refused\n{output}")
    return float(rate[1])


def search() -> list[float]:
    with tempfile.TemporaryDirectory() as directory:
        port = free_port()
        config = Path(directory) / "gate.yaml"
        settings = {**gate_settings(Path(directory), port, "https://idp.example.com", "http://127.0.0.1:9")}
        config.write_text(yaml.safe_dump(settings))
        (Path(directory) / "data").mkdir()
        environment = {**os.environ, "GATE_CONFIG": str(config)}
        begin = "from django.core.management import call_command; call_command('migrate', verbosity=0)\n"
        run = [sys.executable, "manage.py", "shell", "--no-imports", "-c", begin + SEARCH.format(rows=ROWS)]
        started = time.monotonic()
        output = subprocess.run(run, env=environment, capture_output=True, text=True, check=True).stdout
    print(f"\nseconds, decisions found, search among {ROWS:,} (made in {time.monotonic() - started:.0f} s)\n{output}")
    return [float(line.split()[0]) for line in output.splitlines() if re.match(r"\d", line)]


if __name__ == "__main__":
    main()
