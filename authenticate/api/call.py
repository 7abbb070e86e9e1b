"""API call: one validated request of a program, and the audit log in that program's name."""

from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

import structlog
from asgiref.sync import sync_to_async
from django.db import Error, models

from authenticate.access.desk import AccessDesk, Identities
from authenticate.access.telling import AuditLogAway, audited
from authenticate.api.access import ApiProgram
from config.options import Options
from databroker.adminsite.audit import program_entry
from databroker.client import BrokerClient
from databroker.models import AuditEntry

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ApiSurroundings:
    """What a call may use, and where it comes from."""

    options: Options
    broker: BrokerClient
    clock: Callable[[], float]
    desk: AccessDesk
    identities: Identities
    client_address: str
    request_id: str


@dataclass(frozen=True, slots=True)
class ApiCall:
    """Call: who asks, and what of the request has been validated; `query` and `body` are of the operation's models."""

    gate: ApiSurroundings
    program: ApiProgram
    id: str
    query: Any
    body: Any

    def step(
        self, does: str, failed: str, model: type[models.Model], objects: Collection[tuple[str, str]]
    ) -> AbstractAsyncContextManager[None]:
        """Step of which the audit log hears before it is taken, and where it fails; `objects` are looked at each time."""
        return audited(lambda action: self.record(action, model, objects), does, failed)

    async def record(self, action: str, model: type[models.Model], objects: Collection[tuple[str, str]]) -> None:
        """Write what the program does to each (id, words) into the audit log.  Before it is done: AuditLogAway keeps it from being done."""
        now, name = self.gate.clock(), self.program.account.name
        entries = [program_entry(now, name, self.gate.client_address, action, model, id, words) for id, words in objects]
        try:
            await sync_to_async(AuditEntry.objects.bulk_create)(entries, batch_size=100)
        except Error as error:
            log.error("audit log write failed", action=action, by=self.program.id, reason=str(error).partition("\n")[0])
            raise AuditLogAway("audit log write failed") from error
        for entry in entries:
            log.info("api action", action=action, object_id=entry.object_id, by=self.program.id, request_id=self.gate.request_id)
