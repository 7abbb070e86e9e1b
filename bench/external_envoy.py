"""Throughput of an external Envoy that uses authorize (ext_authz), relative to a handler that always allows.

    python -m bench.external_envoy

Each candidate is a gRPC server in a separate process on the first core. A real Envoy on the second core sends check requests for wrk with
32 connections, in many short rounds, so that other load affects all. The table has medians and their ratio, and the share of its core
that the server used.

Goal: at least 0.6 of the rate of a handler that always allows, in gate's own server with authentication of the caller. For comparison the
same handler runs in a plain `grpc.aio` server without authentication. The check request is that of a signed-in browser with raw headers;
the response adds two identity headers and removes gate's cookie.
"""

import argparse
import asyncio
import multiprocessing
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import grpc
import yaml
from envoy.service.auth.v3 import external_auth_pb2 as pb
from google.rpc import code_pb2, status_pb2

from authorize.decision_log.decision_log import DecisionLog, DecisionRecorder
from authorize.ext_authz_types import ExtAuthzDependencies
from authorize.rpc.ext_authz import SERVICE, ExtAuthz
from authorize.service import AuthorizeService
from bench.support.harness import child, free_port, pin, wait_for
from bench.support.process_stats import cpu_seconds
from bench.support.wrk_load import Failed, wrk
from config.options import Options
from databroker.records import SESSION, USER, SessionRecord, UserRecord
from databroker.replica import Replica
from databroker.store.memory import MemoryStore
from foundation.crypto.session_cookie import SessionCookies
from foundation.crypto.signing_key import SigningKey
from foundation.tasks import spawn
from foundation.telemetry.logs import configure_logs
from gateproject.process import rpc_services
from gateproject.process.rpc_services import RpcServices
from proxy.planes.ext_authz import ExtAuthzResponder
from proxy.planes.pipeline import AuthorizationPipeline
from proxy.planes.shared_resources import SharedResources
from tests.support.cookies import signed_in as cookie_of
from tests.support.options import make_options

GOAL = 0.6
TOKEN = "a-token-of-the-benchmark-0123456789"
HOST = "bench.localhost"
HEADERS = {
    "Host": HOST,
    "User-Agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0 Safari/537.36",
    "Accept": "text/html,application/xhtml+xml,*/*;q=0.8",
    "Accept-Language": "en-US,en;q=0.5",
    "Accept-Encoding": "gzip, deflate, br",
    "Sec-Fetch-Mode": "navigate",
}

Serve = Callable[[Path], Awaitable[tuple[int, str]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--seconds", type=int, default=1)
    arguments = parser.parse_args()
    if shutil.which("wrk") is None:
        sys.exit("missing: wrk (apt-get install wrk)")
    candidates: dict[str, Serve] = {
        "always yes, bare server": allow_all_unauthenticated,
        "always yes": allow_all,
        "authorize": authorize,
        "authorize, access log": authorize_logging,
    }
    turns: dict[str, list[Turn]] = {name: [] for name in candidates}
    with tempfile.TemporaryDirectory() as directory, ExitStack() as running:
        servers: dict[str, CheckServer] = {}
        for name, serve in candidates.items():
            place = Path(directory) / name
            place.mkdir()
            port, cookie, pid = running.enter_context(server(serve, place))
            servers[name] = CheckServer(start_envoy(running, place, port), cookie, pid)
            turn(servers[name], 1)  # warm-up
        for _ in range(arguments.turns):
            for name, running_server in servers.items():
                turns[name].append(turn(running_server, arguments.seconds))
    sys.exit(not report(turns))


@dataclass(frozen=True)
class CheckServer:
    envoy: int  # the port of the Envoy that uses it
    cookie: str  # of a signed-in user
    pid: int


@dataclass(frozen=True)
class Turn:
    rate: float  # requests a second
    cost: float  # CPU time of the server per request, microseconds
    busy: float  # share of its core that the server used


def report(turns: dict[str, list[Turn]]) -> bool:
    """Print the table; return True if the goal is met. CPU time shows the ratio on a busy machine too."""
    rates = {name: statistics.median(turn.rate for turn in found) for name, found in turns.items()}
    costs = {name: statistics.median(turn.cost for turn in found) for name, found in turns.items()}
    baseline, baseline_cost = rates["always yes"], costs["always yes"]
    print(f"{'an Envoy asks, wrk -c32':24} {'req/s':>8} {'ratio':>6} {'goal':>5} {'CPU us':>7} {'ratio':>6} {'busy':>5}   quartiles, req/s")
    for name, found in turns.items():
        low, _, high = statistics.quantiles((turn.rate for turn in found), n=4)
        busy = statistics.median(turn.busy for turn in found)
        ratios = f"{rates[name] / baseline:6.2f} {GOAL:5.2f} {costs[name]:7.0f} {baseline_cost / costs[name]:6.2f} {busy:5.0%}"
        print(f"{name:24} {rates[name]:8.0f} {ratios}   {low:.0f} to {high:.0f}")
    return rates["authorize"] >= GOAL * baseline


def turn(checked_server: CheckServer, seconds: int) -> Turn:
    """Run one round; the benchmark ends if a request was denied."""
    headers = [f"-H{name}: {value}" for name, value in {**HEADERS, "Cookie": checked_server.cookie}.items()]
    started, before = time.perf_counter(), cpu_seconds(checked_server.pid)
    try:
        report = wrk(["-c32", *headers, f"http://127.0.0.1:{checked_server.envoy}/page?a=1"], seconds)
    except Failed as failure:
        sys.exit(f"not every request was let through\n{failure}")
    took, elapsed = cpu_seconds(checked_server.pid) - before, time.perf_counter() - started
    return Turn(report.rate, took / report.requests * 1e6, took / elapsed)


def start_envoy(stack: ExitStack, directory: Path, check_port: int) -> int:
    """Return the port of an Envoy that checks every request, and responds itself if it is allowed."""
    port = free_port()
    file = directory / "envoy.yaml"
    file.write_text(yaml.safe_dump(envoy_settings(port, check_port)))
    envoy = [str(Path(sys.executable).parent / "envoy"), "-c", str(file), "--disable-hot-restart", "--concurrency", "1"]
    stack.enter_context(child([*envoy, "--log-level", "error"], core=1, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    wait_for(port)
    return port


def envoy_settings(port: int, check_port: int) -> dict[str, Any]:
    """Return the relevant part of examples/ext_authz/envoy.yaml."""

    def typed(name: str, **settings: Any) -> dict[str, Any]:
        return {"@type": f"type.googleapis.com/envoy.extensions.{name}", **settings}

    ext_authz = typed(
        "filters.http.ext_authz.v3.ExtAuthz",
        transport_api_version="V3",
        failure_mode_allow=False,
        encode_raw_headers=True,
        grpc_service={
            "envoy_grpc": {"cluster_name": "asked"},
            "timeout": "5s",
            "initial_metadata": [{"key": "authorization", "value": f"Bearer {TOKEN}"}],
        },
    )
    manager = typed(
        "filters.network.http_connection_manager.v3.HttpConnectionManager",
        stat_prefix="http",
        use_remote_address=True,
        normalize_path=True,
        http_filters=[
            {"name": "envoy.filters.http.ext_authz", "typed_config": ext_authz},
            {"name": "envoy.filters.http.router", "typed_config": typed("filters.http.router.v3.Router")},
        ],
        route_config={
            "virtual_hosts": [
                {
                    "name": "everything",
                    "domains": ["*"],
                    "routes": [{"match": {"prefix": "/"}, "direct_response": {"status": 200, "body": {"inline_string": "yes"}}}],
                }
            ]
        },
    )
    http2 = typed("upstreams.http.v3.HttpProtocolOptions", explicit_http_config={"http2_protocol_options": {}})
    return {
        "static_resources": {
            "listeners": [
                {
                    "name": "http",
                    "address": _address(port),
                    "filter_chains": [{"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}],
                }
            ],
            "clusters": [
                {
                    "name": "asked",
                    "type": "STATIC",
                    "typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": http2},
                    "load_assignment": {
                        "cluster_name": "asked",
                        "endpoints": [{"lb_endpoints": [{"endpoint": {"address": _address(check_port)}}]}],
                    },
                }
            ],
        }
    }


def _address(port: int) -> dict[str, Any]:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


@contextmanager
def server(serve: Serve, directory: Path) -> Iterator[tuple[int, str, int]]:
    """Run `serve` in a child; return its port, a signed-in Cookie, and the child's process id."""
    parent_end, child_end = multiprocessing.Pipe()
    child = multiprocessing.get_context("spawn").Process(target=_serve, args=(serve, directory, child_end), daemon=True)
    child.start()
    try:
        if not parent_end.poll(60):
            sys.exit("the server did not start")
        port, cookie = parent_end.recv()
        yield port, cookie, child.pid or 0
    finally:
        child.terminate()
        child.join(10)


def _serve(serve: Serve, directory: Path, pipe: Connection) -> None:
    pin(0)
    sys.stdout = (directory / "log").open("w")
    configure_logs("warn", "info" if serve is authorize_logging else "warn", readable=False)

    async def run() -> None:
        pipe.send(await serve(directory))
        await asyncio.Event().wait()

    asyncio.run(run())


async def allow_request(request: pb.CheckRequest, context: grpc.aio.ServicerContext) -> pb.CheckResponse:
    return pb.CheckResponse(status=status_pb2.Status(code=code_pb2.OK))


class AllowAll(ExtAuthz):
    def methods(self) -> dict[str, grpc.RpcMethodHandler]:
        return {"Check": grpc.unary_unary_rpc_method_handler(allow_request, pb.CheckRequest.FromString, pb.CheckResponse.SerializeToString)}


async def allow_all_unauthenticated(directory: Path) -> tuple[int, str]:
    running = grpc.aio.server()
    running.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, AllowAll(None).methods()),))
    port = running.add_insecure_port("127.0.0.1:0")
    await running.start()
    _references.append(running)
    _, cookie = await signed_in(directory)
    return port, cookie


async def allow_all(directory: Path) -> tuple[int, str]:
    (options, service, broker, replica), cookie = await signed_in(directory)
    rpc_services.ExtAuthz = AllowAll  # type: ignore[misc]
    return await served(options, broker, ext_authz_parts(options, service, replica)), cookie


async def authorize(directory: Path) -> tuple[int, str]:
    (options, service, broker, replica), cookie = await signed_in(directory)
    return await served(options, broker, ext_authz_parts(options, service, replica)), cookie


def ext_authz_parts(options: Options, service: AuthorizeService, replica: Replica) -> ExtAuthzDependencies:
    responder = ExtAuthzResponder(options, AuthorizationPipeline(options, service, SharedResources()))
    recorder = DecisionRecorder(DecisionLog(lambda entries: None), lambda session_id, now, host: None)
    return ExtAuthzDependencies(lambda: service, lambda: responder, replica, recorder)


async def authorize_logging(directory: Path) -> tuple[int, str]:
    return await authorize(directory)


async def served(options: Options, broker: MemoryStore, dependencies: ExtAuthzDependencies) -> int:
    services = RpcServices(options)
    services.open(broker, dependencies)
    await services.start()
    _references.append(services)
    assert options.grpc_address is not None
    return options.grpc_address.port


_references: list[object] = []


async def signed_in(directory: Path) -> tuple[tuple[Options, AuthorizeService, MemoryStore, Replica], str]:
    policy = [{"from": f"https://{HOST}", "to": "http://up", "allowed_domains": ["example.com"], "pass_identity_headers": True}]
    options = make_options(
        directory, policy=policy, ext_authz_tokens=[TOKEN], grpc_address=f"127.0.0.1:{free_port()}", jwt_claims_headers=["email"]
    )
    broker, now = MemoryStore(), time.time()
    replica = Replica(broker)
    _references.append(spawn(replica.run(), name="replica"))
    claims = {"email": "bench@example.com", "email_verified": True}
    session = SessionRecord("s1", "oidc/bench", "bench", "oidc", now, now + 36000, claims, issuer=options.first_provider.issuer)
    await broker.put(SESSION, "s1", session.to_data())
    await broker.put(USER, "oidc/bench", UserRecord("oidc/bench", "bench@example.com", issuer=session.issuer).to_data())
    service = AuthorizeService(options, replica, SigningKey.from_options(options))
    cookie = f"theme=dark; {cookie_of(SessionCookies(options), 's1', HOST, issued=now, expires=now + 36000)}"
    return (options, service, broker, replica), cookie


if __name__ == "__main__":
    main()
