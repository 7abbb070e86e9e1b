"""Harness of all benchmarks: children on separate cores, an upstream, a provider, gate's settings, a signed-in cookie."""

import json
import os
import secrets
import socket
import subprocess
import sys
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.support.sign_in import Browser

ROOT = Path(__file__).parents[2]
HOST = "bench.localhost"
AUTHENTICATE_HOST = "authenticate.localhost"
USER = {"sub": "bench", "email": "bench@example.com", "email_verified": True, "groups": ["engineering"]}
BODY = "x" * 1024
START_TIMEOUT = 120  # seconds

NGINX = """
daemon off; worker_processes 1; pid {directory}/nginx.pid; error_log stderr error;
events {{ worker_connections 8192; }}
http {{
  access_log off; keepalive_requests 1000000; default_type text/plain;
  client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy; fastcgi_temp_path {directory}/fastcgi;
  uwsgi_temp_path {directory}/uwsgi; scgi_temp_path {directory}/scgi;
  server {{
    listen 127.0.0.1:{port};
    location / {{ return 200 "{body}"; }}
    location /files/ {{ root {directory}; }}
    location /read {{ proxy_pass http://127.0.0.1:{port}/; }}  # answers after the whole body
  }}
}}
"""


def start_nginx(stack: ExitStack, directory: Path, core: int = 1) -> str:
    port = free_port()
    config = directory / "nginx.conf"
    config.write_text(NGINX.format(directory=directory, port=port, body=BODY))
    stack.enter_context(child(["nginx", "-p", str(directory), "-c", str(config)], core=core))
    wait_for(port)
    return f"http://127.0.0.1:{port}"


def gate_settings(directory: Path, port: int, provider: str, upstream: str) -> dict[str, object]:
    return {
        "insecure_server": True,
        "address": f"127.0.0.1:{port}",
        "grpc_address": "",
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


def start_gate(stack: ExitStack, directory: Path, settings: dict[str, object], **options: Any) -> subprocess.Popen[str]:
    """Write the configuration, start gate with it, and wait until its port is open."""
    config = directory / "config.yaml"
    config.write_text(yaml.safe_dump(settings))
    return run_gate(stack, config, int(str(settings["address"]).rpartition(":")[2]), **options)


def run_gate(stack: ExitStack, config: Path, port: int, *, core: int | tuple[int, ...] = 0, **options: Any) -> subprocess.Popen[str]:
    process = stack.enter_context(child([sys.executable, "manage.py", "rungate", "-config", str(config)], core=core, **options))
    wait_for(port)
    return process


def signed_in_cookie(port: int, scheme: str = "http", origin: str = f"https://{HOST}") -> str:
    """Return the cookie of a signed-in user; `origin` is the proxy's external origin, which may be https without TLS at gate."""
    proxy = f"{scheme}://127.0.0.1:{port}"
    with Browser(dial={HOST: proxy, AUTHENTICATE_HOST: proxy}) as browser:
        response = browser.sign_in(f"{origin}/", USER["sub"])
        if response.status_code != 200:
            sys.exit("sign-in failed:\n" + "\n".join(map(str, browser.steps)))
        return browser.cookie_header(HOST)


def start_provider(stack: ExitStack) -> str:
    command = [sys.executable, "-m", "examples.demo.provider", "0", "--person", json.dumps(USER)]
    process = stack.enter_context(child(command, core=1, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL))
    return f"http://127.0.0.1:{json.loads(process.stdout.readline())['port']}"


@contextmanager
def child(
    command: list[str], *, core: int | tuple[int, ...], environment: dict[str, str] | None = None, **streams: int
) -> Iterator[subprocess.Popen[str]]:
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


def pin(core: int | tuple[int, ...]) -> None:
    """Pin a process to one core, or to several, as far as the machine has them."""
    os.sched_setaffinity(0, cores_for(core))


def cores_for(core: int | tuple[int, ...]) -> set[int]:
    cores = sorted(os.sched_getaffinity(0))
    requested = core if isinstance(core, tuple) else (core,)
    return {cores[each] for each in requested if each < len(cores)} or set(cores)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def wait_for(port: int) -> None:
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    sys.exit(f"nothing answers on port {port}")
