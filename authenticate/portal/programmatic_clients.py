"""Programs that people let act for them: which, where, and by which session; their tokens end with that."""

import hashlib

from databroker.broker_client import BrokerClient
from databroker.records import PROGRAMMATIC_CLIENT, ProgramRecord, SessionRecord

MAX_SHOWN = 20  # of one session


async def record_client(broker: BrokerClient, session: SessionRecord, client: ProgramRecord) -> None:
    """Note that a program was let in; the record ends with the session.  BrokerError."""
    name = hashlib.sha256(f"{client.host}|{client.redirect_host}".encode()).hexdigest()[:16]
    await broker.put(PROGRAMMATIC_CLIENT, f"{session.id}/{name}", client.to_data(), expires=session.expires)


async def list_clients(broker: BrokerClient, session_id: str) -> list[ProgramRecord]:
    """Programs that act by a session.  BrokerError."""
    records = await broker.page(PROGRAMMATIC_CLIENT, f"{session_id}/", MAX_SHOWN)
    return [ProgramRecord.from_record(record) for record in records if record.id.startswith(f"{session_id}/")]
