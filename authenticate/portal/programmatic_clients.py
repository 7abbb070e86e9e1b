"""Client applications that users authorized (programmatic login), per session.  Their tokens expire with the session."""

import hashlib

from databroker.broker_client import BrokerClient
from databroker.records import PROGRAMMATIC_CLIENT, ProgrammaticClient, SessionRecord

MAX_LISTED = 20  # of one session


async def record_client(broker: BrokerClient, session: SessionRecord, client: ProgrammaticClient) -> None:
    """Record an authorized client; the record expires with the session.  Raises BrokerError."""
    name = hashlib.sha256(f"{client.host}|{client.redirect_host}".encode()).hexdigest()[:16]
    await broker.put(PROGRAMMATIC_CLIENT, f"{session.id}/{name}", client.to_data(), expires=session.expires_at)


async def list_clients(broker: BrokerClient, session_id: str) -> list[ProgrammaticClient]:
    """Return the authorized clients of a session.  Raises BrokerError."""
    records = await broker.page(PROGRAMMATIC_CLIENT, f"{session_id}/", MAX_LISTED)
    return [ProgrammaticClient.from_record(record) for record in records if record.id.startswith(f"{session_id}/")]
