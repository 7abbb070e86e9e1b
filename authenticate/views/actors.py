"""Callers of the access desk: who is signed in, from their records at this moment."""

from authenticate.access_requests.access_request_service import AccessActor
from authenticate.service import AuthenticatePageContext
from databroker.audit_log import Actor, ActorKind, AuditLog
from databroker.records import USER, SessionRecord
from databroker.session_reader import user_of
from foundation.email_address import unambiguous_name


async def caller_of(gate: AuthenticatePageContext, session: SessionRecord) -> AccessActor | None:
    """Who is signed in, as decisions know them at this moment."""
    identity = await gate.authorize.load_session_identity(session.id)
    if identity is None or identity.user_id != session.user_id:
        return None
    user = user_of(session, await gate.authenticate.broker.get(USER, session.user_id))
    name = unambiguous_name(user.email if identity.verified_email else "", user.name, user.id)
    audit = AuditLog(Actor(ActorKind.USER, session.user_id, name), gate.client_address, gate.authenticate.clock)
    return AccessActor(session, identity, name, audit)


async def pending_requests(gate: AuthenticatePageContext, session: SessionRecord) -> int | None:
    """Return the number of access requests that this user may answer; None where no route has `access_requests`.

    Raises BrokerError.
    """
    if not gate.authenticate.access.rules:
        return None
    caller = await caller_of(gate, session)
    return 0 if caller is None else len([held async for held in gate.authenticate.access.pending_for(caller)])
