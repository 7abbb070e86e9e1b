"""How many requests a second pass gate with a valid session, against a forwarder that does nothing else?

`python -m bench.requests`: wrk -t1 -c32, nginx answering 1 KiB, five runs each, taken in turns; medians and their ratio.
"""

import argparse
import json
import os
import re
import secrets
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import yaml

from tests.support.sign_in import Browser

ROOT = Path(__file__).parent.parent
HOST = "bench.localhost"
AUTHENTICATE_HOST = "authenticate.localhost"
PERSON = {"sub": "bench", "email": "bench@example.com", "email_verified": True, "groups": ["engineering"]}
BODY = "x" * 1024
STARTED_WITHIN = 30.0  # seconds
_RATE = re.compile(r"Requests/sec:\s+([\d.]+)")

NGINX = """
daemon off; worker_processes 1; pid {directory}/nginx.pid; error_log stderr error;
events {{ worker_connections 512; }}
http {{
  access_log off; keepalive_requests 1000000; default_type text/plain;
  client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy; fastcgi_temp_path {directory}/fastcgi;
  uwsgi_temp_path {directory}/uwsgi; scgi_temp_path {directory}/scgi;
  server {{ listen 127.0.0.1:{port}; location / {{ return 200 "{body}"; }} }}
}}
"""


@dataclass(frozen=True)
class Contender:
    name: str
    port: int
    headers: tuple[str, ...]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=5)
    arguments = parser.parse_args()
    if missing := [command for command in ("wrk", "nginx") if shutil.which(command) is None]:
        sys.exit(f"missing: {', '.join(missing)} (apt-get install wrk nginx-light)")

    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        upstream = start_nginx(stack, directory)
        contenders = [start_bare(stack, upstream), *start_gates(stack, directory, upstream)]
        rates: dict[str, list[float]] = {contender.name: [] for contender in contenders}
        for contender in contenders:
            load(contender, 1)
        for _ in range(arguments.runs):
            for contender in contenders:
                rates[contender.name].append(load(contender, arguments.seconds))
    report(rates)


def report(rates: dict[str, list[float]]) -> None:
    base = statistics.median(next(iter(rates.values())))
    print(f"{'requests/s, wrk -t1 -c32, 1 KiB':34} {'median':>8} {'ratio':>6}   runs")
    for name, each in rates.items():
        median = statistics.median(each)
        print(f"{name:34} {median:8.0f} {median / base:6.2f}   {' '.join(f'{rate:.0f}' for rate in each)}")


def must_reach_the_upstream(contender: Contender) -> None:
    """wrk counts a redirect to the sign-in page as a success, and it would be a fast one: look at the answer itself."""
    headers = dict(header.split(": ", 1) for header in contender.headers)
    response = httpx.get(f"http://127.0.0.1:{contender.port}/", headers=headers, trust_env=False)
    if (response.status_code, response.content) != (200, BODY.encode()):
        sys.exit(f"{contender.name}: answered {response.status_code} with {len(response.content)} bytes, not the upstream's page")


def load(contender: Contender, seconds: int) -> float:
    must_reach_the_upstream(contender)
    headers = [part for header in contender.headers for part in ("-H", header)]
    command = ["wrk", "-t1", "-c32", f"-d{seconds}s", *headers, f"http://127.0.0.1:{contender.port}/"]
    output = subprocess.run(command, capture_output=True, text=True, check=True, preexec_fn=lambda: pin(1)).stdout
    if "Non-2xx" in output or "Socket errors" in output:
        sys.exit(f"{contender.name}: not every request succeeded\n{output}")
    must_reach_the_upstream(contender)
    return float(_RATE.search(output)[1])


def start_nginx(stack: ExitStack, directory: Path) -> str:
    port = free_port()
    config = directory / "nginx.conf"
    config.write_text(NGINX.format(directory=directory, port=port, body=BODY))
    stack.enter_context(child(["nginx", "-p", str(directory), "-c", str(config)], core=1))
    wait_for(port)
    return f"http://127.0.0.1:{port}"


def start_bare(stack: ExitStack, upstream: str) -> Contender:
    port = free_port()
    command = [sys.executable, "-m", "daphne", "-v0", "-b", "127.0.0.1", "-p", str(port), "bench.bare_forwarder:application"]
    stack.enter_context(child(command, core=0, environment={"BARE_UPSTREAM": upstream}))
    wait_for(port)
    return Contender("bare Daphne + aiohttp forwarder", port, ())


def start_gates(stack: ExitStack, directory: Path, upstream: str) -> Iterator[Contender]:
    """Without the access log, like the baseline, and with it, as it runs unless it is told otherwise."""
    provider = start_provider(stack)
    for name, level in (("gate, signed in", "warn"), ("gate, signed in, access log", "info")):
        port = free_port()
        config = directory / f"{level}.yaml"
        config.write_text(yaml.safe_dump({**gate_settings(directory, port, provider, upstream), "proxy_log_level": level}))
        command = [sys.executable, "manage.py", "rungate", "-config", str(config)]
        stack.enter_context(child(command, core=0, stdout=subprocess.DEVNULL))
        wait_for(port)
        yield Contender(name, port, (f"Host: {HOST}", f"Cookie: {signed_in_cookie(port)}"))


def gate_settings(directory: Path, port: int, provider: str, upstream: str) -> dict[str, object]:
    return {
        "insecure_server": True,
        "address": f"127.0.0.1:{port}",
        "data_dir": str(directory / "data"),
        "authenticate_service_url": f"https://{AUTHENTICATE_HOST}",
        "idp_provider": "oidc",
        "idp_provider_url": provider,
        "idp_client_id": "bench",
        "idp_client_secret": "bench",
        "idp_scopes": ["openid", "profile", "email"],
        "cookie_secret": b64encode(secrets.token_bytes(32)).decode(),
        "shared_secret": b64encode(secrets.token_bytes(32)).decode(),
        "log_level": "warn",
        "policy": [{"from": f"https://{HOST}", "to": upstream, "allowed_groups": ["engineering"], "pass_identity_headers": True}],
    }


def signed_in_cookie(port: int) -> str:
    gate = f"http://127.0.0.1:{port}"
    with Browser(dial={HOST: gate, AUTHENTICATE_HOST: gate}) as browser:
        response = browser.sign_in(f"https://{HOST}/", PERSON["sub"])
        if response.status_code != 200:
            sys.exit("sign-in failed:\n" + "\n".join(map(str, browser.steps)))
        return browser.cookie_header(HOST)


def start_provider(stack: ExitStack) -> str:
    command = [sys.executable, "-m", "examples.demo.provider", "0", "--person", json.dumps(PERSON)]
    process = stack.enter_context(child(command, core=1, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL))
    return f"http://127.0.0.1:{json.loads(process.stdout.readline())['port']}"


@contextmanager
def child(command: list[str], *, core: int, environment: dict[str, str] | None = None, **streams: int) -> Iterator[subprocess.Popen[str]]:
    everything = {**os.environ, **(environment or {})}
    process = subprocess.Popen(command, cwd=ROOT, env=everything, text=True, preexec_fn=lambda: pin(core), **streams)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout:
            process.stdout.close()


def pin(core: int) -> None:
    """The server that is measured has a core of its own, where there are two."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) > 1:
        os.sched_setaffinity(0, {cores[core]})


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def wait_for(port: int) -> None:
    deadline = time.monotonic() + STARTED_WITHIN
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    sys.exit(f"nothing answers on port {port}")


if __name__ == "__main__":
    main()
