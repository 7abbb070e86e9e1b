"""The complete product as seven processes on loopback: two of each stateless service, one data broker on a real Redis, with TLS."""

import base64
import itertools
import secrets
import signal
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

import httpx
import yaml

from tests.support.certs import certificate_files
from tests.support.children import Child, free_port
from tests.support.fork_server import manage
from tests.support.redis_server import RedisServer
from tests.support.reloading import replace

AUTHENTICATE_HOST, ROUTE_HOST = "authenticate.localhost", "hello.localhost"
# gRPC's resolver returns both for "localhost", as it would return the addresses of all replicas for a service name.
ADDRESSES = ("127.0.0.1", "[::1]")


class Split:
    def __init__(
        self,
        directory: Path,
        provider_url: str,
        redis: RedisServer,
        policy: list[dict[str, Any]],
        *,
        database_url: str,  # of authenticate, which has the admin, and of authorize, which writes its decisions there
        **more: Any,
    ):
        self.directory = directory
        self.ports = {name: free_port() for name in ("authenticate", "authorize", "databroker", "proxy")}
        self.certificates = certificate_files(directory, AUTHENTICATE_HOST, ROUTE_HOST, "localhost")
        self.children: dict[tuple[str, int], Child] = {}
        self._stack = ExitStack()
        service = {name: f"https://localhost:{self.ports[name]}" for name in ("authorize", "databroker")}
        self.shared: dict[str, Any] = {
            "shared_secret": _secret(),
            "certificate_file": str(self.certificates.certificate),
            "certificate_key_file": str(self.certificates.key),
            "certificate_authority_file": str(self.certificates.authority),
        }
        people = {
            "cookie_secret": _secret(),
            "authenticate_service_url": f"https://{AUTHENTICATE_HOST}:{self.ports['authenticate']}",
            "databroker_service_url": service["databroker"],
            "idp_provider": "oidc",
            "idp_provider_url": provider_url,
            "groups_claim": "groups",
            "policy": [{"from": self.url(""), **route} for route in policy],
            **more,
        }
        client = {"idp_client_id": "gate-tests", "idp_client_secret": "not a secret", "idp_scopes": ["openid", "profile", "email"]}
        self.settings: dict[str, dict[str, Any]] = {
            "databroker": {"databroker_storage_type": "kvstore", "databroker_storage_connection_string": redis.url},
            "authorize": people | {"database_url": database_url},
            "authenticate": people | client | {"database_url": database_url},
            "proxy": people | {"authorize_service_url": service["authorize"]},
        }

    def url(self, path: str = "/") -> str:
        return f"https://{ROUTE_HOST}:{self.ports['proxy']}{path}"

    def admin_url(self, path: str = "") -> str:
        return f"https://{AUTHENTICATE_HOST}:{self.ports['authenticate']}/.gate/admin/{path}"

    def write(self, services: str, number: int) -> Path:
        address = f"{ADDRESSES[number]}:{self.ports[services]}"
        listener = "grpc_address" if services in ("authorize", "databroker") else "address"
        directory = self.directory / f"{services}-{number}"
        directory.mkdir(exist_ok=True)
        config = {"services": services, listener: address, "data_dir": str(directory), **self.shared, **self.settings[services]}
        path = directory / "config.yaml"
        replace(path, yaml.safe_dump(config).encode())
        return path

    def begin(self, services: str, number: int) -> Child:
        child = self.run(services, self.write(services, number))
        self.children[services, number] = child
        return self._stack.enter_context(child)

    def run(self, services: str, config_file: Path) -> Child:
        return manage("rungate", "-config", config_file)

    def __enter__(self) -> Self:
        self._stack.__enter__()
        try:
            for services, number in self.instances():
                self.begin(services, number)
            for child in self.children.values():
                child.wait_for_line("gate is ready")
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @staticmethod
    def instances() -> Iterator[tuple[str, int]]:
        yield "databroker", 0
        yield from itertools.product(("authorize", "authenticate", "proxy"), (0, 1))

    def kill(self, services: str, number: int) -> None:
        self.children[services, number].process.send_signal(signal.SIGKILL)
        self.children[services, number].process.wait(10)

    @contextmanager
    def without(self, services: Iterable[str], number: int) -> Iterator[None]:
        """Kill these instances within this context; afterwards they run again."""
        for each in services:
            self.kill(each, number)
        try:
            yield
        finally:
            for child in [self.begin(each, number) for each in services]:
                child.wait_for_line("gate is ready")

    def client(self, **options: Any) -> httpx.AsyncClient:
        """Return a client whose requests alternate between the instances of a service."""
        transport = EitherInstance(verify=self.certificates.client_context(), trust_env=False)
        return httpx.AsyncClient(transport=transport, timeout=30, **options)


class EitherInstance(httpx.AsyncHTTPTransport):
    """Send each request to the next address, or to the other if it refuses connections, like a load balancer."""

    def __init__(self, **options: Any):
        super().__init__(**options)
        self._turns = itertools.count()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if not request.url.host.endswith(".localhost"):
            return await super().handle_async_request(request)
        first = next(self._turns) % len(ADDRESSES)
        try:
            return await self._sent(request, ADDRESSES[first])
        except httpx.ConnectError:  # nothing was sent
            return await self._sent(request, ADDRESSES[1 - first])

    async def _sent(self, request: httpx.Request, address: str) -> httpx.Response:
        extensions = {**request.extensions, "sni_hostname": request.url.host}
        url = request.url.copy_with(host=address.strip("[]"))
        redirected = httpx.Request(request.method, url, headers=request.headers, stream=request.stream, extensions=extensions)
        return await super().handle_async_request(redirected)


def _secret() -> str:
    return base64.b64encode(secrets.token_bytes(32)).decode()
