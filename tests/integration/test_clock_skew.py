"""One of several processes has a clock a day ahead or behind: it sweeps expired records and signs out no user of the others."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.children import free_port, wait_until
from tests.support.clock_skew import skewed_clock
from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import GateBuilder, RunningGate, sign_in
from tests.support.postgresql import PostgresServer
from tests.support.redis_server import RedisServer
from tests.support.upstream import SampleUpstream

APP = "app.localhost"
DIFFERS = "clock skew exceeds limit"


@dataclass(frozen=True)
class Shared:
    """A store of two processes; `expire` stores an expired record, and `is_swept` returns whether it was removed."""

    settings: dict[str, object]
    expire: Callable[[], object]
    is_swept: Callable[[], bool]


@contextmanager
def kvstore(directory: Path) -> Iterator[Shared]:
    with RedisServer(directory / "redis") as server:
        settings = {"databroker_storage_type": "kvstore", "databroker_storage_connection_string": server.url}
        yield Shared(
            settings,
            lambda: server.command("ZADD", "{gate}expiries", "1", "nothing"),
            lambda: not server.command("ZSCORE", "{gate}expiries", "nothing").strip(),
        )


@contextmanager
def postgresql(directory: Path) -> Iterator[Shared]:
    insert = (
        "INSERT INTO databroker_storedrecord (type, record_id, version, modified_at, expires_at, is_deleted, data)"
        " VALUES ('used_id', gen_random_uuid()::text, 0, 1, 1, false, '')"
    )
    with PostgresServer() as server:
        settings = {"databroker_storage_type": "database", "database_url": server.url}
        count = "SELECT count(*) FROM databroker_storedrecord WHERE version = 0 AND NOT is_deleted"
        yield Shared(settings, lambda: server.query(insert), lambda: server.query(count).strip() == "0")


def skew_of(address: str) -> float:
    families = text_string_to_metric_families(httpx.get(f"http://{address}/metrics", trust_env=False).text)
    return next(each.value for family in families for each in family.samples if each.name == "gate_clock_skew_seconds")


async def ask_for(client: httpx.AsyncClient, gate: RunningGate, seconds: float) -> set[int]:
    """Concurrent requests of a signed-in user."""
    found: set[int] = set()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found |= {answer.status_code for answer in await asyncio.gather(*(client.get(gate.url(APP)) for _ in range(8)))}
        await asyncio.sleep(0.05)
    return found


@pytest.mark.parametrize("difference", ["+1d", "-1d"])
@pytest.mark.parametrize("store", [kvstore, postgresql], ids=["kvstore", "postgresql"])
async def test_skewed_clock_ends_no_sessions_elsewhere_and_is_logged(
    store: Callable[[Path], Iterator[Shared]], difference: str, provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path: Path
) -> None:
    invalid_metrics, right_metrics = (f"127.0.0.1:{free_port()}" for _ in range(2))
    directories = tmp_path / "wrong", tmp_path / "right"
    for directory in directories:
        directory.mkdir()
    with store(tmp_path) as shared:
        builder = GateBuilder(provider.url).setting(**shared.settings, metrics_address=right_metrics)
        builder.route(APP, to=upstream.url, allow_any_authenticated_user=True)
        other = builder.peer().setting(metrics_address=invalid_metrics)
        with other.start(directories[0], **skewed_clock(difference)) as invalid:
            # The first to come clears away what has expired, for all.
            invalid.wait_for_event("leadership acquired", lambda line: line["work"] == "sweep of expired records")
            with builder.start(directories[1]) as right:
                async with right.client() as alice:
                    assert (await sign_in(alice, right.url(APP), "alice")).status_code == 200
                    shared.expire()
                    requested = asyncio.create_task(ask_for(alice, right, 3))
                    await asyncio.to_thread(wait_until, shared.is_swept, "what is over is cleared away by the one with the wrong clock")
                    shared.expire()
                    await asyncio.to_thread(wait_until, shared.is_swept, "and again")
                    assert await requested == {200}
                assert abs(skew_of(right_metrics)) < 5
                assert [line for line in right.log if line["event"] == DIFFERS] == []
            received = invalid.wait_for_event(DIFFERS)
            ahead = 86_400 if difference == "+1d" else -86_400
            assert abs(received["seconds_ahead"] - ahead) < 60
            assert abs(skew_of(invalid_metrics) - ahead) < 60
