"""Cost of a million sessions with split services: a data broker on a real Redis, and two authorize processes.

    python -m bench.stores.split_services                                     # 20,000 sessions
    python -m bench.stores.split_services --sessions 1000000 --records DIR    # keep the Redis file in DIR for the next run

Everything is measured through gRPC: the time until a new authorize decides, its memory with a full replica, the time of a Sync of 100,000
changes, and the time until both deny a deleted session. Each line ends with its goal; the exit status is 1 if one is missed.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import ExitStack, aclosing
from pathlib import Path
from typing import Any

import yaml

from authorize.policy.decision import Outcome
from authorize.policy.policy_request import PolicyRequest
from authorize.rpc.remote_authorizer import RemoteAuthorizer
from bench.stores.store_operations import opened, report
from bench.support.harness import child, free_port
from bench.support.process_stats import resident
from config.options import Options
from databroker.records import DIRECTORY_GROUP, DIRECTORY_USER, SESSION, USER, DirectoryUser, SessionRecord, UserRecord
from databroker.replica import MAX_RECORDS_PER_TYPE, Replica
from databroker.rpc.remote_broker import RemoteBroker, SyncPosition
from databroker.store.base import NO_POSITION, ResyncRequired, StoreBackend
from foundation.crypto.session_cookie import SessionCookies
from foundation.errors import BrokerError
from foundation.rpc.rpc_channel import RpcChannel
from foundation.rpc.shared_secret import SharedSecret
from foundation.values import Url
from tests.support.cookies import signed_in
from tests.support.options import MINIMAL, make_options
from tests.support.redis_server import RedisServer

HOST = "bench.localhost"
USERS, GROUPS, GROUPS_EACH = 110_000, 1000, 10
ISSUER = MINIMAL["idp_provider_url"]
CHANGES = 100_000
REVOCATIONS = 300
AUTHORIZES = 2
AT_ONCE = 64
YEAR = 365 * 86400.0
LOADING = 300.0  # maximum seconds for Redis to load its file
ROUTE = {"from": f"https://{HOST}", "to": "http://127.0.0.1:9", "allowed_domains": ["example.com"], "pass_identity_headers": True}
REQUEST = PolicyRequest(method="GET", host=HOST, port=None, path="/")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sessions", type=int, default=20_000)
    parser.add_argument("--records", type=Path)
    parser.add_argument("--only-fill", action="store_true", help="write what is missing in --records, and leave")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        redis = stack.enter_context(RedisServer(arguments.records or directory / "records", "--appendonly", "yes", patience=LOADING))
        options = build_options(directory / "bench", {"services": "proxy", "policy": [ROUTE]})
        asyncio.run(fill(redis.url, options, arguments.sessions))
        if not arguments.only_fill:
            sys.exit(not asyncio.run(measure(stack, directory, redis.url, arguments.sessions)))


def build_options(directory: Path, settings: dict[str, Any]) -> Options:
    directory.mkdir()
    return make_options(
        directory, grpc_insecure=True, databroker_service_url="http://127.0.0.1:1", authorize_service_url="http://127.0.0.1:1", **settings
    )


async def fill(url: str, options: Options, sessions: int) -> None:
    """Fill with users, each in ten groups, and their sessions, as far as they are missing."""
    store = opened(url, options.shared_secret[0])
    marker = await store.get(USER, "filled")
    done = int(marker.data["sessions"]) if marker is not None else 0
    if not done:
        await each(range(GROUPS), lambda n: store.put(DIRECTORY_GROUP, f"g{n}", {"id": f"g{n}", "name": f"team {n}"}))
        await each(range(min(USERS, sessions)), lambda n: put_user(store, n))
    if done < sessions:
        await each(range(done, sessions), lambda n: put_session(store, n))
        await store.put(USER, "filled", {"sessions": sessions})
    await store.close()


async def each(numbers: Iterable[int], work: Callable[[int], Awaitable[object]]) -> None:
    left = iter(numbers)

    async def worker() -> None:
        for number in left:
            await work(number)

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))


async def put_user(store: StoreBackend, number: int) -> None:
    id, email = f"oidc/{number}", f"person-{number}@example.com"
    groups = tuple(f"g{(GROUPS_EACH * number + turn) % GROUPS}" for turn in range(GROUPS_EACH))
    await store.put(
        USER, id, UserRecord(id, email, True, f"Person {number}", {"locale": "en", "department": "Engineering"}, issuer=ISSUER).to_data()
    )
    await store.put(DIRECTORY_USER, id, DirectoryUser(id, email, f"Person {number}", groups).to_data())


async def put_session(store: StoreBackend | RemoteBroker, number: int) -> None:
    now, user = time.time(), number % USERS
    email = f"person-{user}@example.com"
    session = SessionRecord(
        id=f"s{number}",
        user_id=f"oidc/{user}",
        subject=str(user),
        provider="oidc",
        issued_at=now,
        expires_at=now + YEAR,
        issuer=ISSUER,
        claims={
            "email": email,
            "email_verified": True,
            "name": f"Person {user}",
            "iss": ISSUER,
            "amr": ["pwd", "otp"],
        },
        id_token="i" * 900,
        access_token="a" * 600,
        refresh_token="r" * 200,
        client_address="192.0.2.1",
        user_agent="Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0 Safari/537.36",
    )
    await store.put(SESSION, session.id, session.to_data(), expires=session.expires_at)


class Services:
    """Processes, and their clients."""

    def __init__(self, stack: ExitStack, directory: Path, redis_url: str):
        self._stack = stack
        self._directory = directory
        self._ports = {name: free_port() for name in ("databroker", *map(str, range(AUTHORIZES)))}
        self.options = build_options(directory / "client", {"services": "proxy", "policy": [ROUTE]})
        self._cookies = SessionCookies(self.options)
        self.broker = RemoteBroker(self._channel("databroker"))
        replica = Replica(self.broker)  # without a change stream here
        self.authorizers = [RemoteAuthorizer(self.options, self._channel(str(number)), replica) for number in range(AUTHORIZES)]
        self._begin(
            "databroker", 1, services="databroker", databroker_storage_type="kvstore", databroker_storage_connection_string=redis_url
        )

    def begin_authorize(self, number: int) -> subprocess.Popen[str]:
        url = f"http://127.0.0.1:{self._ports['databroker']}"
        return self._begin(str(number), number % 2, services="authorize", policy=[ROUTE], databroker_service_url=url)

    def _begin(self, name: str, core: int, **settings: Any) -> subprocess.Popen[str]:
        directory = self._directory / name
        directory.mkdir()
        shared = {
            key: MINIMAL[key] for key in ("shared_secret", "cookie_secret", "authenticate_service_url", "idp_provider", "idp_provider_url")
        }
        own = {"grpc_insecure": True, "grpc_address": f"127.0.0.1:{self._ports[name]}", "data_dir": str(directory), "log_level": "warn"}
        (directory / "gate.yaml").write_text(yaml.safe_dump({**shared, **own, **settings}))
        return self._stack.enter_context(
            child([sys.executable, "manage.py", "rungate", "-config", str(directory / "gate.yaml")], core=core)
        )

    def _channel(self, name: str) -> RpcChannel:
        url = Url("http", "127.0.0.1", self._ports[name])
        return RpcChannel(url, self.options, SharedSecret(self.options.shared_secret))

    def cookie(self, session: int) -> list[bytes]:
        now = time.time()
        return [signed_in(self._cookies, f"s{session}", HOST, issued=now, expires=now + 3600).encode()]

    async def is_let_in(self, authorize: int, cookie: list[bytes]) -> bool:
        outcome = (await self.authorizers[authorize].check(REQUEST, cookie)).decision.outcome
        if outcome not in (Outcome.ALLOWED, Outcome.SIGN_IN):
            raise SystemExit(f"the bench measures the wrong thing: {outcome}")
        return outcome is Outcome.ALLOWED


async def measure(stack: ExitStack, directory: Path, redis_url: str, sessions: int) -> bool:
    services = Services(stack, directory, redis_url)
    await until(services.broker.server_version)
    synced = await sync(services, redis_url)
    first, process = await start(services, 0, sessions)
    await start(services, 1, sessions)
    p99 = await revocation(services)
    mebibytes = await full(services, process, sessions)
    return all(
        [
            report(f"seconds from the start of an authorize to its first decision, {sessions:,} sessions", first, 3),
            report(f"seconds for a Sync of {CHANGES:,} changes", synced, 20),
            report(f"seconds until {AUTHORIZES} authorizes refuse a deleted session, p99 of {REVOCATIONS}", p99, 1),
            report("MiB of an authorize whose replica is full, at its highest", mebibytes, 400),
        ]
    )


async def until(check: Callable[[], Awaitable[Any]]) -> None:
    """Wait until the process responds."""
    async with asyncio.timeout(60):
        while True:
            try:
                await check()
            except BrokerError:
                await asyncio.sleep(0.01)
            else:
                return


async def start(services: Services, number: int, sessions: int) -> tuple[float, subprocess.Popen[str]]:
    """Return the seconds from the start of the process, including the client's search for the server."""
    cookie = services.cookie(sessions // 2)
    started = time.perf_counter()
    process = services.begin_authorize(number)

    async def decide() -> None:
        if not await services.is_let_in(number, cookie):
            raise SystemExit("the bench measures the wrong thing: a session is refused")

    await until(decide)
    return time.perf_counter() - started, process


async def sync(services: Services, redis_url: str) -> float:
    """Measure the Sync of recent changes to existing records, by a client that missed them all."""
    server_version, begin = await services.broker.server_version(), 0
    store = opened(redis_url, services.options.shared_secret[0])
    try:
        async with aclosing(services.broker.changes(NO_POSITION)) as changes:
            await anext(changes)
    except ResyncRequired as told:
        begin = told.version
    await each(range(CHANGES), lambda number: put_session(store, number))
    await store.close()
    started, seen = time.perf_counter(), 0
    async with aclosing(services.broker.changes(SyncPosition(begin, server_version))) as changes:
        async for _ in changes:
            seen += 1
            if seen == CHANGES:
                break
    return time.perf_counter() - started


async def revocation(services: Services) -> float:
    took = []
    for number in range(REVOCATIONS):
        cookie = services.cookie(number)
        for authorize in range(AUTHORIZES):
            if not await services.is_let_in(authorize, cookie):
                raise SystemExit("the bench measures the wrong thing: a session is refused")
        started = time.perf_counter()
        await services.broker.delete(SESSION, f"s{number}")
        for authorize in range(AUTHORIZES):
            while await services.is_let_in(authorize, cookie):
                pass
        took.append(time.perf_counter() - started)
        await put_session(services.broker, number)
    took.sort()
    print(f"a deleted session is refused: median {took[len(took) // 2] * 1000:.1f} ms, worst {took[-1] * 1000:.1f} ms", flush=True)
    return took[int(len(took) * 0.99)]


async def full(services: Services, process: subprocess.Popen[str], sessions: int) -> float:
    """Measure with more sessions than a replica holds, of users in ten groups each: three records per session."""
    started, number = time.perf_counter(), min(sessions, MAX_RECORDS_PER_TYPE + MAX_RECORDS_PER_TYPE // 10)

    async def renew(session: int) -> None:
        await services.is_let_in(0, services.cookie(session))

    await each(range(number), renew)
    print(f"{number:,} sessions seen for the first time: {number / (time.perf_counter() - started):,.0f} decisions a second", flush=True)
    return resident(process.pid, "VmHWM") / 2**20


if __name__ == "__main__":
    main()
