"""Session reader: the one way from a record to a session that may be used, and to its person."""

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
    """Reader of one configuration: a session counts only while the provider that vouched for it is a configured one."""

    def __init__(self, options: Options):
        self.providers = options.providers

    def read(self, record: Record) -> SessionRecord | None:
        """The session in a record; None where it makes no sense, or is another provider's: who has it signs in anew."""
        if (session := SessionRecord.parse(record)) is None:
            return None
        if not vouches(self.providers.get(session.provider), session):
            log.info(
                "session ignored: issuer mismatch",
                session_id=session.id,
                user_id=session.user_id,
                provider=session.provider,
                issuer=session.effective_issuer or "unknown",
            )
            return None
        return session


def vouches(provider: ProviderConfig | None, session: SessionRecord) -> bool:
    """Whether the session is of this provider.  Its id alone says little: another may have had it, and subjects of two may be equal."""
    return provider is not None and session.provider == provider.id and matches_issuer(provider.issuer, session.effective_issuer)


def user_for_session(session: SessionRecord, record: Record | None) -> UserRecord:
    """The person as the session's own issuer describes them: none where the record is of another's, of the same id."""
    user = UserRecord.from_record(record) if record is not None else None
    return user if user is not None and user.effective_issuer == session.effective_issuer else UserRecord(session.user_id)


def directory_user_for_session(session: SessionRecord, record: Record | None) -> DirectoryUser | None:
    """The session's person in the directory: None where the record is of another issuer's, of the same id."""
    user = DirectoryUser.from_record(record) if record is not None else None
    return user if user is not None and applies_to_issuer(user.issuer, session.effective_issuer) else None


async def find_directory_record(
    session: SessionRecord, provider: ProviderConfig | None, get: Callable[[str, str], Awaitable[Record | None]]
) -> Record | None:
    """Return the directory's record of the session's account, or the one that deactivates it under another case of its id."""
    record = await get(DIRECTORY_USER, session.user_id)
    id = provider.deactivation_id(session.user_id) if provider is not None else session.user_id
    if id == session.user_id:
        return record
    other = await get(DIRECTORY_USER, id)
    user = directory_user_for_session(session, other)
    return other if user is not None and user.is_deactivated else record


def group_for_session(session: SessionRecord, record: Record | None) -> DirectoryGroup | None:
    """The group in the directory, as `person_of`: two issuers may give one id to two groups, and rules go by their names, too."""
    group = DirectoryGroup.from_record(record) if record is not None else None
    return group if group is not None and applies_to_issuer(group.issuer, session.effective_issuer) else None


def active_grants(holder: GrantSubject, record: Record | None) -> tuple[AccessGrant, ...]:
    """The temporary access of a session's person: none where the record is of another issuer's, of the same id."""
    stored = UserGrants.from_record(record) if record is not None else None
    grants = stored.grants if stored is not None and (stored.user_id, stored.issuer) == holder else ()
    return tuple(grant for grant in grants if not grant.original_expires_at)
