"""Profile of the user of a session, for pages and JSON."""

import asyncio
from typing import Any

from authenticate.service import AuthenticateService
from authorize.identity.identity_builder import linked_id_for
from databroker.claims import groups_in, verified_email_for
from databroker.records import DIRECTORY_GROUP, DIRECTORY_USER, USER, DirectoryGroup, SessionRecord
from databroker.session_reader import directory_user_for_session, group_for_session, user_for_session

MAX_GROUPS = 200
# These bind tokens to each other and are of no use to a user.
_HIDDEN_CLAIMS = frozenset({"nonce", "at_hash", "c_hash"})


async def build_user_profile(service: AuthenticateService, session: SessionRecord) -> dict[str, Any]:
    record = await service.broker.get(USER, session.user_id)
    user, provider = user_for_session(session, record), service.providers.configured[session.provider]
    return {
        "user": {"id": user.id, "name": user.name, "email": user.email, "email_verified": user.email_verified},
        "released": {
            "id": linked_id_for(user, session.claims, provider) or user.id,
            "email": user.email if verified_email_for(user, session.claims, provider) else "",
        },
        "groups": await _groups(service, session),
        "session": {"id": session.id, "provider": session.provider, "issued": session.issued_at, "expires": session.expires_at},
        "claims": {name: value for name, value in sorted(session.claims.items()) if name not in _HIDDEN_CLAIMS},
    }


async def _groups(service: AuthenticateService, session: SessionRecord) -> list[dict[str, str]]:
    provider = service.providers.configured[session.provider]
    directory_user = (
        directory_user_for_session(session, await service.broker.get(DIRECTORY_USER, session.user_id)) if provider.has_directory else None
    )
    from_directory = directory_user.group_ids if directory_user is not None else ()
    from_claims = groups_in(session.claims, provider.groups_claim)
    ids = list(dict.fromkeys([*from_directory, *from_claims]))[:MAX_GROUPS]
    records = await asyncio.gather(*(service.broker.get(DIRECTORY_GROUP, provider.record_id_prefix + id) for id in ids))
    groups = [group_for_session(session, record) or DirectoryGroup(id) for id, record in zip(ids, records, strict=True)]
    return [{"id": group.id, "name": group.name or group.id, "email": group.email} for group in groups]
