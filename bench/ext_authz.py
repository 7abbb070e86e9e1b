"""How many ext_authz questions of an Envoy does authorize answer, against a handler that always says yes?

    python -m bench.ext_authz

Both are `grpc.aio` servers in a process of their own on the first core, asked alike by another process over one connection with 32
calls under way: in many short turns, so that a busy moment of the machine meets both; medians and their ratio.  Goal: at least
0.6.  The question is that of a signed-in browser whose headers come raw, the answer adds two identity headers and takes gate's
cookie away.
"""

import argparse
import asyncio
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import grpc
from envoy.service.auth.v3 import external_auth_pb2 as pb
from google.rpc import code_pb2, status_pb2

from authorize.decision_log import DecisionLog
from authorize.recorder import Recorder
from authorize.rpc.ext_authz import CHECK, SERVICE, ExtAuthz
from authorize.service import AuthorizeService
from bench.rig import free_port, pin
from databroker.client import LocalBroker
from databroker.records import SESSION, USER, Session, User
from databroker.replica import Replica
from databroker.store.memory import MemoryStore
from gateproject.config.options import Options
from gateproject.crypto.session_cookie import SessionCookies
from gateproject.crypto.signing_key import SigningKey
from gateproject.rpc_services import RpcServices
from gateproject.tasks import spawn
from gateproject.telemetry.logs import configure_logs
from proxy.envoy_words import Words
from tests.support.options import make_options

GOAL = 0.6
AT_ONCE = 32
TOKEN = "a-token-of-the-benchmark-0123456789"
HOST = "bench.localhost"
HEADERS = {
    ":authority": HOST,
    ":path": "/page?a=1",
    ":method": "GET",
    ":scheme": "https",
    "user-agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0 Safari/537.36",
    "accept": "text/html,application/xhtml+xml,*/*;q=0.8",
    "accept-language": "en-US,en;q=0.5",
    "accept-encoding": "gzip, deflate, br",
    "sec-fetch-mode": "navigate",
    "x-forwarded-for": "192.0.2.1",
    "x-forwarded-proto": "https",
    "x-request-id": "7c1e3f9a-0000-4000-8000-000000000000",
}

Serve = Callable[[Path], Awaitable[tuple[int, str]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=25)
    parser.add_argument("--seconds", type=float, default=0.3)
    arguments = parser.parse_args()
    contenders: dict[str, Serve] = {
        "always yes": always_yes,
        "authorize": authorize,
        "authorize, access log": authorize_logging,
    }
    turns: dict[str, list[Turn]] = {name: [] for name in contenders}
    with tempfile.TemporaryDirectory() as directory, ExitStack() as running:
        servers = {}
        for name, serve in contenders.items():
            place = Path(directory) / name
            place.mkdir()
            servers[name] = running.enter_context(server(serve, place))
            asyncio.run(load(*servers[name][:2], arguments.seconds))  # warms up
        for _ in range(arguments.turns):
            for name, (port, cookie, pid) in servers.items():
                began = cpu_seconds(pid)
                rate, calls = asyncio.run(load(port, cookie, arguments.seconds))
                turns[name].append(Turn(rate, (cpu_seconds(pid) - began) / calls * 1e6))
    sys.exit(not report(turns))


@dataclass(frozen=True)
class Turn:
    rate: float  # calls a second
    cost: float  # the server's processor time for one, microseconds


def report(turns: dict[str, list[Turn]]) -> bool:
    """Prints the table; True where the goal is reached.  The server's processor time shows the ratio on a busy machine, too."""
    rates = {name: statistics.median(turn.rate for turn in found) for name, found in turns.items()}
    costs = {name: statistics.median(turn.cost for turn in found) for name, found in turns.items()}
    baseline, least = rates["always yes"], costs["always yes"]
    print(f"{'gRPC, 32 calls at once':24} {'calls/s':>8} {'ratio':>6} {'goal':>5} {'CPU us':>7} {'ratio':>6}   quartiles, calls/s")
    for name, found in turns.items():
        low, _, high = statistics.quantiles((turn.rate for turn in found), n=4)
        ratios = f"{rates[name] / baseline:6.2f} {GOAL:5.2f} {costs[name]:7.0f} {least / costs[name]:6.2f}"
        print(f"{name:24} {rates[name]:8.0f} {ratios}   {low:.0f} to {high:.0f}")
    return rates["authorize"] >= GOAL * baseline


def cpu_seconds(pid: int) -> float:
    """Of all threads, by the scheduler's own account: /proc/<pid>/stat counts in hundredths of a second."""
    return sum(int(each.read_text().split()[0]) for each in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


@contextmanager
def server(serve: Serve, directory: Path) -> Iterator[tuple[int, str, int]]:
    """`serve` in a child: its port, the Cookie of somebody signed in, the child's id."""
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("spawn").Process(target=_serve, args=(serve, directory, theirs), daemon=True)
    child.start()
    try:
        if not ours.poll(60):
            sys.exit("the server did not start")
        port, cookie = ours.recv()
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


async def always_yes(directory: Path) -> tuple[int, str]:
    async def check(request: pb.CheckRequest, context: grpc.aio.ServicerContext) -> pb.CheckResponse:
        return pb.CheckResponse(status=status_pb2.Status(code=code_pb2.OK))

    handler = grpc.unary_unary_rpc_method_handler(check, pb.CheckRequest.FromString, pb.CheckResponse.SerializeToString)
    running = grpc.aio.server()
    running.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {"Check": handler}),))
    port = running.add_insecure_port("127.0.0.1:0")
    await running.start()
    _kept.append(running)
    _, cookie = await signed_in(directory)
    return port, cookie


async def authorize(directory: Path) -> tuple[int, str]:
    (options, service, broker, replica), cookie = await signed_in(directory)
    words = Words(options, service)
    services = RpcServices(options)
    recorder = Recorder(DecisionLog(lambda entries: None), lambda session_id, now, host: None)
    services.open(broker, ExtAuthz(lambda: service, lambda: words, replica, recorder))
    await services.start()
    _kept.append(services)
    assert options.grpc_address is not None
    return options.grpc_address.port, cookie


async def authorize_logging(directory: Path) -> tuple[int, str]:
    return await authorize(directory)


_kept: list[object] = []


async def signed_in(directory: Path) -> tuple[tuple[Options, AuthorizeService, LocalBroker, Replica], str]:
    policy = [{"from": f"https://{HOST}", "to": "http://up", "allowed_domains": ["example.com"], "pass_identity_headers": True}]
    options = make_options(
        directory, policy=policy, ext_authz_tokens=[TOKEN], grpc_address=f"127.0.0.1:{free_port()}", jwt_claims_headers=["email"]
    )
    broker, now = LocalBroker(MemoryStore()), time.time()
    replica = Replica(broker)
    _kept.append(spawn(replica.run(), name="replica"))
    claims = {"email": "bench@example.com", "email_verified": True}
    session = Session("s1", "oidc/bench", "bench", "oidc", now, now + 36000, claims)
    await broker.put(SESSION, "s1", session.to_data())
    await broker.put(USER, "oidc/bench", User("oidc/bench", "bench@example.com").to_data())
    service = AuthorizeService(options, replica, SigningKey.from_options(options))
    cookie = f"theme=dark; _gate={SessionCookies(options).seal('s1', HOST, now, now + 36000)}"
    return (options, service, broker, replica), cookie


async def load(port: int, cookie: str, seconds: float) -> tuple[float, int]:
    """Calls a second, and how many; each was let through, or the benchmark ends."""
    pin(1)
    question = pb.CheckRequest()
    http = question.attributes.request.http
    http.method, http.host, http.path, http.id = "GET", HOST, "/page?a=1", HEADERS["x-request-id"]
    question.attributes.source.address.socket_address.address = "192.0.2.1"
    for name, value in {**HEADERS, "cookie": cookie}.items():
        http.header_map.headers.add(key=name, raw_value=value.encode())
    raw = question.SerializeToString()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.unary_unary(CHECK)  # neither side's client spends time on messages
        metadata = (("authorization", f"Bearer {TOKEN}"),)
        ends, done = time.perf_counter() + seconds, 0

        async def ask() -> None:
            nonlocal done
            while time.perf_counter() < ends:
                if pb.CheckResponse.FromString(await call(raw, metadata=metadata)).status.code != code_pb2.OK:
                    sys.exit("a question was answered with a refusal")
                done += 1

        began = time.perf_counter()
        await asyncio.gather(*(ask() for _ in range(AT_ONCE)))
        return done / (time.perf_counter() - began), done


if __name__ == "__main__":
    main()
