"""Grants of several gates on one store, of many sessions that end at once, and at the bound of what Envoy remembers."""

import asyncio
import itertools
import shutil
import threading
import time
from collections.abc import AsyncIterator, Iterator

import pytest

from config.load import load_options
from databroker.client import LocalBroker
from databroker.records import SESSION
from databroker.store.open import open_store
from tests.integration.test_envoy_grants import until_alone
from tests.support.children import wait_until
from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import GateBuilder, RunningGate
from tests.support.raw_http import Broken, RawClient
from tests.support.redis_server import RedisServer
from tests.support.sample_upstream import SampleUpstream
from tests.support.signed_in import SignedIn, sign_in

pytestmark = [pytest.mark.slow, pytest.mark.skipif(shutil.which("redis-server") is None, reason="redis-server is not installed")]
APP = "app.localhost"
ROOM = 60
ENDED = 3.0  # seconds: what has ended may pass for one, and machines are busy


@pytest.fixture(scope="module")
def gates(
    provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[RunningGate, RunningGate]]:
    redis = RedisServer(tmp_path_factory.mktemp("redis"))
    builder = (
        GateBuilder(provider.url)
        .route(APP, to=upstream.url, allow_any_authenticated_user=True, pass_identity_headers=True)
        .setting(data_plane="envoy", envoy_remembers=ROOM, databroker_storage_type="kvstore")
        .setting(databroker_storage_connection_string=redis.url)
    )
    with builder.start(tmp_path_factory.mktemp("one")) as one, builder.beside().start(tmp_path_factory.mktemp("other")) as other:
        yield one, other
    redis.child.__exit__()


@pytest.fixture
async def broker(gates: tuple[RunningGate, RunningGate]) -> AsyncIterator[LocalBroker]:
    store = open_store(load_options(gates[0].config_file, {}))
    yield LocalBroker(store)
    await store.close()


def person(number: str, broker: LocalBroker, gate: RunningGate) -> "asyncio.Future[SignedIn]":
    return asyncio.ensure_future(sign_in(broker, load_options(gate.config_file, {}), number))


class Visitor(threading.Thread):
    """Asks again and again with one cookie over one connection; `passed` has the moment at which each request was begun that passed."""

    def __init__(self, gate: RunningGate, cookie: str):
        super().__init__(daemon=True)
        self.passed: list[float] = []
        self.is_done = threading.Event()
        self._gate, self._cookie = gate, cookie

    def run(self) -> None:
        gate = self._gate
        head = f"GET /x HTTP/1.1\r\nHost: {APP}:{gate.builder.port}\r\nCookie: {self._cookie}\r\nSec-Fetch-Mode: cors\r\n\r\n".encode()
        while not self.is_done.is_set():
            try:
                with RawClient(gate.builder.listens, tls=gate.certificates.client_context(), server_name=APP) as client:
                    while not self.is_done.is_set():
                        began = time.monotonic()
                        if client.send(head).response().status == 200:
                            self.passed.append(began)
                        time.sleep(0.02)
            except (OSError, Broken):
                time.sleep(0.02)


async def test_a_session_that_ends_anywhere_passes_nowhere_a_second_later(
    gates: tuple[RunningGate, RunningGate], broker: LocalBroker
) -> None:
    people = [await person(f"p{number}", broker, gates[0]) for number in range(10)]
    cookies = [each.cookie(f"{APP}:{gates[0].builder.port}") for each in people]
    visitors = [Visitor(gate, cookie) for gate, cookie in itertools.product(gates, cookies)]
    for visitor in visitors:
        visitor.start()
    wait_until(lambda: all(len(visitor.passed) > 20 for visitor in visitors), "all visitors pass", 30)
    ended = {}
    for one, cookie in zip(people, cookies, strict=True):
        await broker.delete(SESSION, one.session.id)
        ended[cookie] = time.monotonic()
    await asyncio.sleep(ENDED + 1.0)
    for visitor in visitors:
        visitor.is_done.set()
        visitor.join()
        assert visitor.passed[-1] < ended[visitor._cookie] + ENDED


async def test_a_full_table_costs_nobody_their_access(gates: tuple[RunningGate, RunningGate], broker: LocalBroker) -> None:
    """Whom Envoy can't remember gate is asked about, and when sessions end there is room again."""
    gate = gates[0]
    people = [await person(f"q{number}", broker, gate) for number in range(ROOM + 10)]
    await asyncio.sleep(1.0)
    asked = [ask_of(gate, each) for each in people for _ in range(2)]
    assert asked == [200] * len(asked)
    for each in people:
        await broker.delete(SESSION, each.session.id)
    await asyncio.sleep(ENDED)
    assert {ask_of(gate, each) for each in people} == {401}
    last = await person("last", broker, gate)
    until_alone(gate, last.cookie(f"{APP}:{gate.builder.port}"))


def ask_of(gate: RunningGate, person: SignedIn) -> int:
    cookie = person.cookie(f"{APP}:{gate.builder.port}")
    with RawClient(gate.builder.listens, tls=gate.certificates.client_context(), server_name=APP) as client:
        head = f"GET /x HTTP/1.1\r\nHost: {APP}:{gate.builder.port}\r\nCookie: {cookie}\r\nSec-Fetch-Mode: cors\r\n\r\n"
        return client.send(head.encode()).response().status
