"""Cost of loading and checking a configuration with 100, 1,000 and 10,000 routes.

    python -m bench.config_load

Goals: 10,000 routes within 3 s of CPU time and 300 MiB, and ten times the routes at most 12 times the time. Each figure is of a separate
process: its total CPU time and peak memory. The smallest file shows the cost of the start.
"""

import base64
import itertools
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

GOAL_SECONDS = 3.0
GOAL_MEBIBYTES = 300
GOAL_RATIO = 12.0
SIZES = (100, 1_000, 10_000)
ROUNDS = 3

LOAD = (
    "import sys; from pathlib import Path; from authorize.config_checks import CONFIG_CHECKS; "
    "from authorize.route_settings import route_table; "
    "from config.loader import load_options; from gateproject.process.gc_tuning import background_build\n"
    "with background_build(): route_table(load_options(Path(sys.argv[1]), {}, CONFIG_CHECKS))"
)
COMMANDS = {
    "load": [sys.executable, "-c", LOAD],
    "check": [sys.executable, "manage.py", "checkconfig", "-config"],
}
# Excludes the start of the process, which costs as much as thousands of routes: seconds of CPU time.
ALONE = {
    "load": LOAD.replace("\n", "; import time; began = time.process_time()\n") + "\nprint(time.process_time() - began)",
    "check": "import sys, time; from pathlib import Path; from gateproject.management.commands.checkconfig import check; "
    "began = time.process_time(); check(Path(sys.argv[1])); print(time.process_time() - began)",
}


def configuration(routes: int) -> Iterator[str]:
    secrets = [base64.b64encode(bytes((seed * step) % 251 for step in range(1, 33))).decode() for seed in (37, 91)]
    yield f"cookie_secret: {secrets[0]}\nshared_secret: {secrets[1]}\ninsecure_server: true\naddress: 127.0.0.1:8080\n"
    yield "authenticate_service_url: https://authenticate.example.com\nidp_provider: oidc\nidp_provider_url: https://idp.example.com\n"
    yield "idp_client_id: gate\nidp_client_secret: secret\npolicy:\n"
    for number in range(routes):
        yield f"  - from: https://app{number // 4}.example.com\n    prefix: /part{number % 4}/\n"
        yield f"    to: http://10.{number >> 16}.{number >> 8 & 255}.{number & 255}:8000\n"
        yield f"    allowed_users: [person{number}@example.com, somebody@example.com]\n    allowed_groups:\n      - engineering\n"
        yield "    timeout: 30s\n    set_request_headers:\n      X-Team: research\n"


def measured(command: list[str]) -> tuple[float, float]:
    """Return seconds of CPU time, and MiB at the peak."""
    measure = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); " + (
        "used = resource.getrusage(resource.RUSAGE_CHILDREN); print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)"
    )
    found = subprocess.run([sys.executable, "-c", measure, *command], check=True, capture_output=True, text=True, timeout=120)
    seconds, mebibytes = map(float, found.stdout.split())
    return seconds, mebibytes


def of_the_routes(name: str, path: Path) -> float:
    command = [sys.executable, "-c", ALONE[name], str(path)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout)


def main() -> int:
    failed = False
    with tempfile.TemporaryDirectory() as directory:
        files = {size: Path(directory) / f"config{size}.yaml" for size in SIZES}
        for size, path in files.items():
            path.write_text("".join(configuration(size)))
        for name, command in COMMANDS.items():
            # The minimum of a few runs, because other load only adds to it.
            best = {size: min(measured([*command, str(path)]) for _ in range(ROUNDS)) for size, path in files.items()}
            alone = [min(of_the_routes(name, path) for _ in range(ROUNDS)) for path in files.values()]
            failed |= not report(name, best, alone)
    print(
        f"  goals: {GOAL_SECONDS:.0f} s and {GOAL_MEBIBYTES} MiB for {SIZES[-1]:,} routes, ratio {GOAL_RATIO:.0f} for ten times the routes"
    )
    return 1 if failed else 0


def report(name: str, found: dict[int, tuple[float, float]], alone: list[float]) -> bool:
    """Compare the cost of the routes alone: ten times as many should cost ten times as much."""
    print(f"{name:<6}{'routes':>8}{'s':>8}{'MiB':>8}{'ratio of time':>16}{'of memory':>12}")
    before = None
    for size, (seconds, mebibytes) in found.items():
        ratios = f"{seconds / before[0]:>16.2f}{mebibytes / before[1]:>12.2f}" if before else ""
        print(f"{'':<6}{size:>8,}{seconds:>8.2f}{mebibytes:>8.0f}{ratios}")
        before = (seconds, mebibytes)
    growths = [large / small for small, large in itertools.pairwise(alone)]
    growth = growths[-1]
    print(f"{'':<6}time of the routes alone, each time ten times as many: {', '.join(f'{each:.1f}' for each in growths)} times")
    seconds, mebibytes = found[SIZES[-1]]
    return seconds <= GOAL_SECONDS and mebibytes <= GOAL_MEBIBYTES and growth <= GOAL_RATIO


if __name__ == "__main__":
    sys.exit(main())
