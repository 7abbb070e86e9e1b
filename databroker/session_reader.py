"""Session reader: the only way from a record to a valid session and its user."""

from collections.abc import Awaitable, Callable

import structlog

from config.issuers import applies_to_issuer, matches_issuer
from config.options import Options
from config.provider_config import ProviderConfig
from databroker.grants.grant_records import AccessGrant, GrantSubject, UserGrants
from databroker.records import DIRECTORY_USER, DirectoryGroup, DirectoryUser, Record, SessionRecord, UserRecord

log = structlog.get_logger(__name__)


# enforcement-point: Identity: Session validity
class SessionReader:
    """Reader for one configuration: a session is valid only while the provider that issued it is configured."""

    def __init__(self, options: Options):
        self.providers = options.providers

    def read_valid(self, record: Record) -> SessionRecord | None:
        """Return the session in a record, or None if it is malformed or of another provider.  The user then signs in again."""
        if (session := SessionRecord.parse(record)) is None:
            return None
        if not is_session_issuer(self.providers.get(session.provider), session):
            log.info(
                "session ignored: issuer mismatch",
                session_id=session.id,
                user_id=session.user_id,
                provider=session.provider,
                issuer=session.effective_issuer or "unknown",
            )
            return None
        return session


def is_session_issuer(provider: ProviderConfig | None, session: SessionRecord) -> bool:
    """Return whether this provider issued the session.

    The provider id is not enough, because another provider may have had it, and two providers may use the same subject.
    """
    return provider is not None and session.provider == provider.id and matches_issuer(provider.issuer, session.effective_issuer)


def user_for_session(session: SessionRecord, record: Record | None) -> UserRecord:
    """Return the user of a session; only the id if the record is missing or of another issuer."""
    user = UserRecord.from_record(record) if record is not None else None
    return user if user is not None and user.effective_issuer == session.effective_issuer else UserRecord(session.user_id)


def directory_user_for_session(session: SessionRecord, record: Record | None) -> DirectoryUser | None:
    """Return the session's user in the directory; None if the record is missing or of another issuer."""
    user = DirectoryUser.from_record(record) if record is not None else None
    return user if user is not None and applies_to_issuer(user.issuer, session.effective_issuer) else None


async def find_directory_record(
    session: SessionRecord, provider: ProviderConfig | None, get: Callable[[str, str], Awaitable[Record | None]]
) -> Record | None:
    """Return the directory record of the session's account, or one with the id in another case that deactivates it."""
    record = await get(DIRECTORY_USER, session.user_id)
    id = provider.deactivation_id(session.user_id) if provider is not None else session.user_id
    if id == session.user_id:
        return record
    other = await get(DIRECTORY_USER, id)
    user = directory_user_for_session(session, other)
    return other if user is not None and user.is_deactivated else record


def group_for_session(session: SessionRecord, record: Record | None) -> DirectoryGroup | None:
    """Return the group in the directory; None if the record is missing or of another issuer.

    Two issuers may use one id for two groups, and rules also match groups by name.
    """
    group = DirectoryGroup.from_record(record) if record is not None else None
    return group if group is not None and applies_to_issuer(group.issuer, session.effective_issuer) else None


def active_grants(holder: GrantSubject, record: Record | None) -> tuple[AccessGrant, ...]:
    """Return the grants of `holder` that were not revoked; none if the record is missing or of another issuer."""
    stored = UserGrants.from_record(record) if record is not None else None
    grants = stored.grants if stored is not None and (stored.user_id, stored.issuer) == holder else ()
    return tuple(grant for grant in grants if not grant.original_expires_at)
