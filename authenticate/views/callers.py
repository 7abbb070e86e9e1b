"""Callers of the access desk: who is signed in, from their records at this moment, and how the audit log is told what they do."""

import structlog
from django.db import Error

from authenticate.access.desk import Caller, Record
from authenticate.access.telling import AuditLogAway
from authenticate.page_context import AuthenticatePageContext
from authorize.policy.identity import Identity
from databroker.adminsite.audit import access_entry
from databroker.records import USER, SessionRecord, UserRecord
from databroker.session_reader import user_of

log = structlog.get_logger(__name__)


async def caller_of(gate: AuthenticatePageContext, session: SessionRecord) -> Caller | None:
    """Who is signed in, as decisions know them at this moment."""
    identity = await gate.authorize.identity_of_session(session.id)
    if identity is None or identity.user_id != session.user_id:
        return None
    user = user_of(session, await gate.authenticate.broker.get(USER, session.user_id))
    return Caller(session, identity, _name(user, identity))


def _name(user: UserRecord, identity: Identity) -> str:
    """Name of somebody for those who decide about them, which must not be another's: who may choose it is told with it."""
    if identity.rule_email:
        return user.email
    return f"{user.name} ({user.id})" if user.name else user.id


def audit_record(gate: AuthenticatePageContext) -> Record:
    """Record for the desk's steps; raises AuditLogAway."""

    async def record(by: Caller, action: str, user_id: str, words: str) -> None:
        now, providers = gate.authenticate.clock(), gate.options.providers
        try:
            await access_entry(now, by.session, providers, gate.client_address, action, user_id, words).asave()
        except Error as error:
            log.error("the audit log can't be written", action=action, by=by.session.user_id, reason=str(error).partition("\n")[0])
            raise AuditLogAway("the audit log can't be written") from error

    return record
