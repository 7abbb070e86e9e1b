"""A key that was replaced is served for another day, after a reload, and by every process."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from authenticate.jwks_publisher import PUBLISH_INTERVAL, RETENTION, JwksPublisher
from databroker.records import SIGNING_KEY
from databroker.store.memory import MemoryStore
from foundation.crypto.signing_key import SigningKey
from foundation.errors import BrokerError
from tests.support.clock import Clock
from tests.support.options import make_options


def key(algorithm: str = "ES256") -> SigningKey:
    private = ed25519.Ed25519PrivateKey.generate() if algorithm == "EdDSA" else ec.generate_private_key(ec.SECP256R1())
    return SigningKey(private, algorithm, is_configured=True)


async def kids(keys: JwksPublisher) -> list[str]:
    return [each["kid"] for each in (await keys.jwks())["keys"]]


async def test_a_replaced_key_is_served_for_a_day_after_the_last_that_signed_with_it(broker: MemoryStore, clock: Clock) -> None:
    old, new = key(), key("EdDSA")
    await JwksPublisher(old, broker, clock).publish()
    keys = JwksPublisher(new, broker, clock)
    await keys.publish()
    assert await kids(keys) == [new.kid, old.kid]
    clock.now += RETENTION
    assert await kids(keys) == [new.kid, old.kid]
    clock.now += PUBLISH_INTERVAL
    assert await kids(keys) == [new.kid]


async def test_every_process_serves_the_keys_of_all(broker: MemoryStore, clock: Clock) -> None:
    first, second = (JwksPublisher(each, broker, clock) for each in (key(), key()))
    await first.publish()
    assert len(await kids(first)) == 1
    await second.publish()
    clock.now += 1.0
    assert set(await kids(first)) == set(await kids(second))
    assert len(await kids(first)) == 2


async def test_unauthenticated_clients_query_the_broker_once_a_second(broker: MemoryStore, clock: Clock) -> None:
    request_count = 0
    page = broker.page

    async def counted(*where: Any) -> Any:
        nonlocal request_count
        request_count += 1
        return await page(*where)

    broker.page = counted  # type: ignore[method-assign]
    keys = JwksPublisher(key(), broker, clock)
    for _ in range(20):
        await keys.jwks()
    assert request_count == 1


async def test_a_broker_that_is_away_takes_no_key_away(broker: MemoryStore, clock: Clock) -> None:
    await JwksPublisher(key(), broker, clock).publish()
    keys = JwksPublisher(key(), broker, clock)
    known = await kids(keys)

    async def away(*where: Any) -> Any:
        raise BrokerError("away")

    broker.page = away  # type: ignore[method-assign]
    clock.now += 5.0
    assert await kids(keys) == known
    assert len(known) == 2


OTHER = key()


@pytest.mark.parametrize(
    "change",
    [
        {"kid": "0" * 64},
        {"alg": "HS256"},
        {"alg": "none"},
        {"use": "enc"},
        {"d": "private"},
        {"x": OTHER.jwk()["x"]},
        {"kty": "oct"},
        {"x": None},
    ],
)
async def test_nothing_but_a_public_key_under_its_own_name_is_served(broker: MemoryStore, clock: Clock, change: dict[str, Any]) -> None:
    jwk = {**key().jwk(), **change}
    data = {"jwk": {name: value for name, value in jwk.items() if value is not None}, "expires": clock.now + 60}
    await broker.put(SIGNING_KEY, jwk["kid"], data, expires=clock.now + 60)
    assert len(await kids(JwksPublisher(key(), broker, clock))) == 1


async def test_a_record_serves_no_key_under_another_id(broker: MemoryStore, clock: Clock) -> None:
    data = {"jwk": key().jwk(), "expires": clock.now + 60}
    await broker.put(SIGNING_KEY, "another", data, expires=clock.now + 60)
    assert len(await kids(JwksPublisher(key(), broker, clock))) == 1


async def test_a_key_made_for_this_process_is_not_announced(tmp_path: Path, broker: MemoryStore, clock: Clock) -> None:
    generated = SigningKey.from_options(make_options(tmp_path))
    running = asyncio.ensure_future(JwksPublisher(generated, broker, clock).run())
    await asyncio.wait({running}, timeout=5)
    assert await broker.page(SIGNING_KEY, "", 10) == []
    assert running.done()
