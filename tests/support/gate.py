"""The complete product on loopback: `python manage.py rungate` as a child process, with TLS, a separate data directory and free ports.

with DevelopmentProvider() as provider:
    gate = (
        GateBuilder(provider.url)
        .route("hello.localhost", to=upstream.url, allow_any_authenticated_user=True)
        .route("files.localhost", to=upstream.url, allowed_groups=["engineering"])
        .setting(groups_claim="groups")
    )
    with gate.start(tmp_path) as running:
        async with running.client() as client:
            page = await sign_in(client, running.url("hello.localhost", "/?a=1"), "alice")
"""

import atexit
import base64
import copy
import os
import re
import secrets
import shutil
import signal
import socket
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import httpx
import yaml

from examples.demo.loopback import LoopbackTransport
from tests.support.certs import CertificateFiles, certificate_files
from tests.support.children import clean_environment, free_port
from tests.support.development_provider import pick_user
from tests.support.eventually import PATIENCE, eventually_equal
from tests.support.fork_server import manage, python

AUTHENTICATE_HOST = "authenticate.localhost"
HTML = {"Accept": "text/html"}

# Builds the Python arguments that serve gate on a port, optionally with certificates; the configuration is in the environment.
ServerCommand = Callable[[int, CertificateFiles], tuple[str | Path, ...]]


class GateBuilder:
    def __init__(self, provider_url: str, *, authenticate_host: str = AUTHENTICATE_HOST):
        self.port = self.listens = free_port()
        self.authenticate_host = authenticate_host
        self.policy: list[dict[str, Any]] = []
        self.settings: dict[str, Any] = {
            "address": f"127.0.0.1:{self.port}",
            "grpc_address": "",
            "authenticate_service_url": self.url(authenticate_host, ""),
            "idp_provider": "oidc",
            "idp_provider_url": provider_url,
            "idp_client_id": "gate-tests",
            "idp_client_secret": "not a secret",
            "idp_scopes": ["openid", "profile", "email"],
            "shared_secret": _secret(),
            "cookie_secret": _secret(),
            # So that suites written for one data plane can run over another.
            "data_plane": os.environ.get("GATE_TESTED_DATA_PLANE", "embedded"),
            "workers": os.environ.get("GATE_TESTED_WORKERS", "1"),
        }

    def url(self, host: str, path: str = "/") -> str:
        return f"https://{host}:{self.port}{path}"

    def route(self, host: str, *, to: str | None = None, **keys: Any) -> Self:
        """Add a route. `host` is without a port; the other keys are as in the configuration file."""
        where = {"to": to} if to is not None else {}
        self.policy.append({"from": self.url(host, ""), **where, **keys})
        return self

    def setting(self, **settings: Any) -> Self:
        """Set settings by their file key; None removes one."""
        self.settings |= settings
        return self

    def start(self, directory: Path, command: "ServerCommand | None" = None, **environment: str) -> "RunningGate":
        """Start gate and wait until it responds. `command` is `manage.py rungate` by default.

        Raises AssertionError with gate's log if it does not start.
        """
        certificates = certificate_files(directory, self.authenticate_host, *self._route_hosts())
        return RunningGate(self, self.write(directory, certificates), certificates, environment, command)

    def peer(self) -> "GateBuilder":
        """Return a builder of another process of the same gate, with its routes, secrets and provider, on an internal port."""
        other = copy.copy(self)
        port = free_port()
        other.settings = {**self.settings, "address": f"127.0.0.1:{port}"}
        other.listens = port
        return other

    def write(self, directory: Path, certificates: CertificateFiles) -> Path:
        files = {"certificate_file": str(certificates.certificate), "certificate_key_file": str(certificates.key)}
        config = {"data_dir": str(directory / "data"), **files, **self.settings, "policy": self.policy}
        path = directory / "config.yaml"
        path.write_text(yaml.safe_dump({key: value for key, value in config.items() if value is not None}))
        if not config.get("database_url") and not Path(config["data_dir"]).exists():
            shutil.copytree(_migrated_data_dir(), config["data_dir"])
        return path

    def _route_hosts(self) -> list[str]:
        hosts = (urlsplit(route["from"]).hostname or "" for route in self.policy)
        return list(dict.fromkeys(hosts))


class RunningGate:
    def __init__(
        self,
        builder: GateBuilder,
        config_file: Path,
        certificates: CertificateFiles,
        environment: Mapping[str, str] | None = None,
        command: ServerCommand | None = None,
    ):
        self.builder = builder
        self.url = builder.url
        self.port = builder.port
        self.certificates = certificates
        self.config_file = config_file
        variables = clean_environment(**(environment or {}))
        if command is None:
            self.child = manage("rungate", "-config", config_file, environment=variables)
        else:
            self.child = python(*command(builder.listens, certificates), environment={**variables, "GATE_CONFIG": str(config_file)})
        try:
            self.child.wait_for(self._answers, "gate answers /ping")
            if command is None and builder.settings.get("data_plane") == "envoy":
                self.wait_for_event("gate is ready")  # Envoy listens before it can forward
        except BaseException:
            self.child.__exit__()
            raise

    def _answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.builder.listens), 2):
            return self._answers_ping()
        return False

    def _answers_ping(self) -> bool:
        try:
            with httpx.Client(verify=self.certificates.client_context(), trust_env=False, timeout=2) as client:
                host = self.builder.authenticate_host
                request = client.build_request(
                    "GET",
                    f"https://127.0.0.1:{self.builder.listens}/ping",
                    headers={"Host": f"{host}:{self.port}"},
                    extensions={"sni_hostname": host},
                )
                return client.send(request).status_code == 200
        except httpx.TransportError:
            return False

    def client(self, **options: Any) -> httpx.AsyncClient:
        """Return an HTTP client that stores cookies, dials loopback for every name, and does not follow redirects."""
        transport = EverythingOnLoopback(verify=self.certificates.client_context(), trust_env=False)
        return httpx.AsyncClient(transport=transport, **{"timeout": PATIENCE, **options})

    @property
    def log(self) -> list[dict[str, Any]]:
        """Return gate's log until now, one object per line; `event` is the message."""
        return self.child.events

    def wait_for_event(self, event: str, matches: Callable[[dict[str, Any]], bool] = lambda _: True) -> dict[str, Any]:
        def found() -> list[dict[str, Any]]:
            return [entry for entry in self.log if entry.get("event") == event and matches(entry)]

        self.child.wait_for(lambda: bool(found()), f"the event {event!r}")
        return found()[0]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        return self.child.stop(number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.child.__exit__()


class EverythingOnLoopback(LoopbackTransport):
    def is_on_loopback(self, name: str) -> bool:
        return True


async def follow(client: httpx.AsyncClient, response: httpx.Response, *, limit: int = 12) -> httpx.Response:
    """Follow redirects as a browser does, until a response is not one."""
    for _ in range(limit):
        if response.next_request is None:
            return response
        response = await client.send(response.next_request)
    raise AssertionError(f"more than {limit} redirects, the last to {response.url}")


async def sign_in(client: httpx.AsyncClient, url: str, sub: str) -> httpx.Response:
    """Open `url`, sign in as the user at the provider, and return the page where the browser ends."""
    page = await follow(client, await client.get(url, headers=HTML))
    return await follow(client, await pick_user(client, page, sub))


async def sign_out(client: httpx.AsyncClient, gate: RunningGate) -> httpx.Response:
    """Press the sign-out button of the dashboard."""
    page = await follow(client, await client.get(gate.url(AUTHENTICATE_HOST, "/.gate/"), headers=HTML))
    (token,) = re.findall(r'name="_gate_csrf" value="([^"]+)"', page.text)
    return await client.post(gate.url(AUTHENTICATE_HOST, "/.gate/signout/"), data={"_gate_csrf": token})


async def led_to(client: httpx.AsyncClient, url: str, origin: str) -> str:
    """Open `url`, follow redirects up to one that leads to this origin, and return its target."""
    response = await client.get(url, headers=HTML)
    while response.next_request is not None and not str(response.next_request.url).startswith(origin):
        response = await client.send(response.next_request)
    assert response.next_request is not None, response.text
    return str(response.next_request.url)


@cache
def _migrated_data_dir() -> Path:
    """Return a data directory with tables, because creating them takes a quarter of the CPU time of a first start."""
    directory = Path(tempfile.mkdtemp(prefix="gate-tests-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    data, config = directory / "data", directory / "config.yaml"
    data.mkdir(mode=0o700)
    settings = {**GateBuilder("https://unasked.localhost").settings, "insecure_server": True, "data_dir": str(data)}
    config.write_text(yaml.safe_dump(settings))
    with manage("migrate", "--verbosity", "0", environment=clean_environment(GATE_CONFIG=str(config))) as child:
        assert child.ended(60) == 0, child.output
    return data


def _secret() -> str:
    return base64.b64encode(secrets.token_bytes(32)).decode()


async def status_or_cut(client: httpx.AsyncClient, url: str, **options: Any) -> int | None:
    """Return the status of a response; None if it was cut because its session or access ended."""
    try:
        return (await client.get(url, **options)).status_code
    except (httpx.RemoteProtocolError, httpx.ReadError):
        return None


async def until_status(client: httpx.AsyncClient, url: str, status: int) -> None:
    await eventually_equal(lambda: status_or_cut(client, url, headers=HTML), status)
