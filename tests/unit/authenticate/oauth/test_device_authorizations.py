"""Device authorizations in the data broker: their limits, and that each is decided once."""

import asyncio
from dataclasses import replace

import pytest

from authenticate.oauth import device_authorizations
from authenticate.oauth.device_authorizations import DeviceAuthorizations, StoredDevice, TooManyDevices, TooManyInvalidCodes
from authenticate.oauth.oauth_records import DeviceAuthorization, DeviceState
from config.options import Options
from databroker.records import DEVICE_AUTHORIZATION, SessionRecord
from databroker.store.memory import MemoryStore
from foundation.crypto.device_codes import NewDeviceCodes
from tests.support.clock import Clock

SESSION = SessionRecord("s", "idp/alice", "alice", "idp", 0.0, 9e9)


@pytest.fixture
def devices(options: Options, broker: MemoryStore, clock: Clock) -> DeviceAuthorizations:
    return DeviceAuthorizations(options, broker, clock)


def requested(codes: NewDeviceCodes, clock: Clock, address: str = "192.0.2.1") -> DeviceAuthorization:
    return DeviceAuthorization(
        "build-box",
        "Build box",
        "https://mcp.example.com",
        ("a",),
        codes.device_code.hash,
        requested_at=clock.now,
        expires_at=clock.now + 600,
        client_address=address,
        interval_seconds=5,
    )


async def created(devices: DeviceAuthorizations, clock: Clock, address: str = "192.0.2.1") -> tuple[NewDeviceCodes, StoredDevice]:
    codes = devices.codes.new()
    await devices.create(codes, requested(codes, clock, address))
    found = await devices.find_by_user_code(codes.user_code, SESSION, "192.0.2.9")
    assert found is not None
    return codes, found


async def test_both_codes_find_the_authorization(devices: DeviceAuthorizations, clock: Clock) -> None:
    codes, found = await created(devices, clock)
    assert found.authorization == requested(codes, clock)
    assert await devices.find_by_device_code(codes.device_code.token) == found
    assert await devices.find_by_device_code("gate_dc_x") is None
    assert await devices.find_pending("") is None


async def test_one_decision_counts(devices: DeviceAuthorizations, clock: Clock) -> None:
    codes, found = await created(devices, clock)
    states = [DeviceState.DENIED, DeviceState.APPROVED, DeviceState.APPROVED]
    decided = await asyncio.gather(*(devices.decide(found, state, "id") for state in states))
    assert decided.count(True) == 1
    assert await devices.find_pending(codes.user_code) is None
    assert await devices.find_by_user_code(codes.user_code, SESSION, "192.0.2.9") is None


async def test_decision_after_the_expiry(devices: DeviceAuthorizations, clock: Clock) -> None:
    codes, found = await created(devices, clock)
    clock.now += 600
    assert not await devices.decide(found, DeviceState.APPROVED, "id")
    assert await devices.find_pending(codes.user_code) is None
    clock.now += 600
    assert await devices.find_by_device_code(codes.device_code.token) is None


async def test_decision_is_about_the_device_of_the_page(devices: DeviceAuthorizations, clock: Clock, broker: MemoryStore) -> None:
    _, found = await created(devices, clock)
    other = replace(found.authorization, device_code_hash="0" * 64)
    await broker.put(DEVICE_AUTHORIZATION, found.record.id, other.to_data())
    assert not await devices.decide(found, DeviceState.APPROVED, "id")


async def test_decision_survives_polling(devices: DeviceAuthorizations, clock: Clock) -> None:
    _, found = await created(devices, clock)
    assert await devices.save(found, replace(found.authorization, polled_at=clock.now))
    assert await devices.decide(found, DeviceState.APPROVED, "id")
    assert not await devices.save(found, replace(found.authorization, polled_at=clock.now)), "an older version"


async def test_each_network_has_a_limit(devices: DeviceAuthorizations, clock: Clock) -> None:
    for _ in range(device_authorizations.MAX_STARTED):
        await created(devices, clock)
    with pytest.raises(TooManyDevices):
        await created(devices, clock)
    await created(devices, clock, "192.0.2.2")
    clock.now += device_authorizations.STARTED_PERIOD
    await created(devices, clock)


async def test_total_is_limited(devices: DeviceAuthorizations, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_authorizations, "MAX_PENDING", 2)
    for number in range(2):
        await created(devices, clock, f"192.0.2.{number}")
    with pytest.raises(TooManyDevices):
        await created(devices, clock, "192.0.2.9")


@pytest.mark.parametrize(
    ("user_id", "address", "is_refused"),
    [("idp/alice", "192.0.2.9", True), ("idp/alice", "192.0.2.8", True), ("idp/bob", "192.0.2.9", True), ("idp/bob", "192.0.2.8", False)],
)
async def test_guessing_is_limited_by_user_and_network(
    devices: DeviceAuthorizations, clock: Clock, user_id: str, address: str, is_refused: bool
) -> None:
    codes, _ = await created(devices, clock)
    for _ in range(device_authorizations.MAX_INVALID_CODES):
        assert await devices.find_by_user_code("BBBB-BBBB", SESSION, "192.0.2.9") is None
    guesser = replace(SESSION, user_id=user_id)
    if is_refused:
        with pytest.raises(TooManyInvalidCodes):
            await devices.find_by_user_code(codes.user_code, guesser, address)
    else:
        assert await devices.find_by_user_code(codes.user_code, guesser, address) is not None
    clock.now += device_authorizations.INVALID_CODES_PERIOD - 1
    assert await devices.find_by_user_code("BBBB-BBBB", replace(SESSION, user_id="idp/carol"), "192.0.2.7") is None
