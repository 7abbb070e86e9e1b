"""Device authorizations in the data broker: looked up by device or user code, and decided once."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import structlog

from authenticate.oauth.oauth_records import DeviceAuthorization, DeviceState
from config.options import Options
from databroker.broker_client import BrokerClient
from databroker.records import DEVICE_AUTHORIZATION, Record, SessionRecord
from databroker.store.base import VersionConflict
from foundation.client_network import RateLimit, client_network
from foundation.crypto.agent_token import AgentTokenKind, parse_session_id
from foundation.crypto.device_codes import DeviceCodes, NewDeviceCodes
from foundation.errors import BrokerError

MAX_PENDING = 1000
MAX_STARTED, STARTED_PERIOD = 60, 600.0  # of one network and process in these seconds
MAX_INVALID_CODES, INVALID_CODES_PERIOD = 10, 600.0  # of one user, and of one network, in one process
RETENTION_SECONDS = 600.0  # after the expiry, so that the device learns of it
MAX_ATTEMPTS = 5  # writes of other processes at the same moment

log = structlog.get_logger(__name__)


class TooManyDevices(Exception):
    """Too many device authorizations, of this network or in total."""


class TooManyInvalidCodes(Exception):
    """The user, or the network, has entered too many codes that do not exist."""


@dataclass(frozen=True, slots=True)
class StoredDevice:
    """Device authorization with the record that it was read from."""

    record: Record
    authorization: DeviceAuthorization


class DeviceAuthorizations:
    """Device authorizations of one configuration.  Methods raise BrokerError."""

    def __init__(self, options: Options, broker: BrokerClient, clock: Callable[[], float]):
        self.codes = DeviceCodes(options)
        self._broker = broker
        self._clock = clock
        self._started = RateLimit(MAX_STARTED, STARTED_PERIOD, clock)
        self._invalid_codes = RateLimit(MAX_INVALID_CODES, INVALID_CODES_PERIOD, clock)

    # enforcement-point: Authorization server: Limit on device authorizations
    async def create(self, codes: NewDeviceCodes, authorization: DeviceAuthorization) -> None:
        """Raises TooManyDevices."""
        network = client_network(authorization.client_address)
        is_full = len(await self._broker.page(DEVICE_AUTHORIZATION, "", MAX_PENDING)) >= MAX_PENDING
        if is_full or not self._started.acquire(network):
            log.warning("device authorization refused: limit", network=network, client_id=authorization.client_id)
            raise TooManyDevices
        expires = authorization.expires_at + RETENTION_SECONDS
        await self._broker.put(DEVICE_AUTHORIZATION, codes.record_id, authorization.to_data(), expires=expires, only_if_version=0)

    async def find_by_device_code(self, device_code: str) -> StoredDevice | None:
        """Return the authorization that a device code names.  The caller checks its secret."""
        return await self._read(parse_session_id(AgentTokenKind.DEVICE_CODE, device_code))

    # enforcement-point: Authorization server: Guessing of user codes
    async def find_by_user_code(self, user_code: str, session: SessionRecord, client_address: str) -> StoredDevice | None:
        """Return the pending authorization of a user code that the user of `session` entered.  Raises TooManyInvalidCodes."""
        keys = (session.user_id, client_network(client_address))
        if not all(map(self._invalid_codes.allows, keys)):
            log.warning("user code refused: limit", user_id=session.user_id, client_address=client_address)
            raise TooManyInvalidCodes
        found = await self.find_pending(user_code)
        if found is None:
            for key in keys:
                self._invalid_codes.record(key)
        return found

    async def find_pending(self, user_code: str) -> StoredDevice | None:
        """Return the authorization of a user code that waits for a decision."""
        for id in self.codes.record_ids(user_code) if user_code else ():
            found = await self._read(id)
            if found is not None:
                is_pending = found.authorization.state is DeviceState.PENDING and self._clock() < found.authorization.expires_at
                return found if is_pending else None
        return None

    # enforcement-point: Authorization server: Decision on a device
    async def decide(self, device: StoredDevice, state: DeviceState, session_id: str = "") -> bool:
        """Write the user's decision; False if another one was made, or the codes have expired."""
        for _ in range(MAX_ATTEMPTS):
            current = await self._read(device.record.id)
            if (
                current is None
                or current.authorization.state is not DeviceState.PENDING
                or current.authorization.device_code_hash != device.authorization.device_code_hash
                or self._clock() >= current.authorization.expires_at
            ):
                return False
            if await self.save(current, replace(current.authorization, state=state, session_id=session_id)):
                return True
        raise BrokerError("the device authorization was changed concurrently too often")

    async def save(self, device: StoredDevice, changed: DeviceAuthorization) -> bool:
        """Write over the version that was read; False if another process has changed it since."""
        record = device.record
        try:
            await self._broker.put(
                DEVICE_AUTHORIZATION,
                record.id,
                {**record.data, **changed.to_data()},
                expires=changed.expires_at + RETENTION_SECONDS,
                only_if_version=record.version,
            )
        except VersionConflict:
            return False
        return True

    async def _read(self, id: str) -> StoredDevice | None:
        record = await self._broker.get(DEVICE_AUTHORIZATION, id) if id else None
        authorization = DeviceAuthorization.parse(record) if record is not None else None
        return StoredDevice(record, authorization) if record is not None and authorization is not None else None
