"""Actors of access requests: signed-in users with their current records."""

from authenticate.access_requests.access_request_service import AccessActor
from authenticate.service import AuthenticatePageContext
from databroker.audit_log import Actor, ActorKind, AuditLog
from databroker.records import USER, SessionRecord
from databroker.session_reader import user_for_session
from foundation.email_address import unambiguous_name


async def actor_for(gate: AuthenticatePageContext, session: SessionRecord) -> AccessActor | None:
    """Return the user of a session with the current identity, or None if the session has just ended."""
    identity = await gate.authorize.load_session_identity(session.id)
    if identity is None or identity.user_id != session.user_id:
        return None
    user = user_for_session(session, await gate.authenticate.broker.get(USER, session.user_id))
    name = unambiguous_name(user.email if identity.verified_email else "", user.name, user.id)
    audit = AuditLog(Actor(ActorKind.USER, session.user_id, name), gate.client_address, gate.authenticate.clock)
    return AccessActor(session, identity, name, audit)


async def count_pending_requests(gate: AuthenticatePageContext, session: SessionRecord) -> int | None:
    """Return the number of access requests that this user may decide, or None if no route has `access_requests`.

    Raises BrokerError.
    """
    if not gate.authenticate.access_requests.rules:
        return None
    actor = await actor_for(gate, session)
    return 0 if actor is None else len([held async for held in gate.authenticate.access_requests.pending_for(actor)])
