"""Callers of the access desk: who is signed in, from their records at this moment, and how the audit log is told what they do."""

import structlog
from django.db import Error

from authenticate.access.desk import Caller, Record
from authenticate.access.telling import AuditLogAway
from authenticate.service import AuthenticatePageContext
from databroker.adminsite.audit import Actor, ActorKind, access_entry
from databroker.records import USER, SessionRecord
from databroker.session_reader import user_of
from foundation.email_address import name_in_evidence

log = structlog.get_logger(__name__)


async def caller_of(gate: AuthenticatePageContext, session: SessionRecord) -> Caller | None:
    """Who is signed in, as decisions know them at this moment."""
    identity = await gate.authorize.identity_of_session(session.id)
    if identity is None or identity.user_id != session.user_id:
        return None
    user = user_of(session, await gate.authenticate.broker.get(USER, session.user_id))
    return Caller(session, identity, name_in_evidence(user.email if identity.rule_email else "", user.name, user.id))


async def pending_requests(gate: AuthenticatePageContext, session: SessionRecord) -> int | None:
    """Return the number of access requests that this user may answer; None where no route has `access_requests`.

    Raises BrokerError.
    """
    if not gate.authenticate.access.rules:
        return None
    caller = await caller_of(gate, session)
    return 0 if caller is None else len([held async for held in gate.authenticate.access.waiting(caller)])


def audit_record(gate: AuthenticatePageContext) -> Record:
    """Record for the desk's steps; raises AuditLogAway."""

    async def record(by: Caller, action: str, user_id: str, words: str) -> None:
        actor = Actor(ActorKind.USER, by.session.user_id, by.name)
        try:
            await access_entry(gate.authenticate.clock(), actor, gate.client_address, action, user_id, words).asave()
        except Error as error:
            log.error("audit log write failed", action=action, by=by.session.user_id, reason=str(error).partition("\n")[0])
            raise AuditLogAway("audit log write failed") from error

    return record
