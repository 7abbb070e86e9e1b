"""Identity loader: build the identity of a session from the data broker's records."""

import asyncio
import math
import weakref
from dataclasses import dataclass, replace
from sys import intern
from typing import overload

import structlog

from authorize.identity.identity_builder import IdentityInputs, build_identity, grant_subject, linked_id_for
from authorize.policy.identity import GrantPeriod, Identity
from config.options import Options
from config.routes.route_bearer_tokens import JWT
from databroker.grants.grant_records import AccessGrant, GrantSubject
from databroker.records import (
    ACCESS_GRANT,
    DIRECTORY_GROUP,
    DIRECTORY_USER,
    MALFORMED,
    SESSION,
    USER,
    DirectoryGroup,
    Record,
    SessionRecord,
    UserRecord,
    report_malformed,
)
from databroker.replica import CACHE_CLEARED, Replica
from databroker.session_reader import (
    SessionReader,
    active_grants,
    directory_user_for_session,
    find_directory_record,
    group_for_session,
    is_session_issuer,
    user_for_session,
)
from databroker.store.base import RecordChange
from databroker.store.frozen import frozen_data
from foundation.auth_challenges import InvalidToken
from foundation.bounded_cache import MIB, BoundedCache, estimate_size

log = structlog.get_logger(__name__)

# The specification has rules by group id only for the other kinds, because their group names are neither unique nor stable.
KINDS_WITH_GROUP_NAMES = frozenset({"oidc", "google", "github", "gitlab", "auth0"})
# An identity takes some 3 KiB, several times the size of its records in the replica.
MAX_CACHED = 20_000
MAX_CACHE_BYTES = 128 * MIB
EMPTY_DATA = frozen_data({})


@dataclass(frozen=True, slots=True)
class IdentitySourceRecords:
    """IdentitySources of a loaded identity: its records without their data.  It is valid while the replica has the same versions.

    `uses_grants` is True if temporary access is among them.  `grants` is None if there is none.
    """

    session: Record
    user: Record | None
    directory_user: Record | None
    grants: Record | None = None
    uses_grants: bool = False

    @property
    def modified_at(self) -> dict[str, float]:
        """Return the time of the last change of each record, in Unix seconds."""
        named = {"session": self.session, "user": self.user, "directory": self.directory_user, "temporary access": self.grants}
        return {name: record.modified for name, record in named.items() if record is not None}

    @property
    def version(self) -> int:
        """Return the newest version among the records."""
        return max(record.version for record in (self.session, self.user, self.directory_user, self.grants) if record is not None)

    @property
    def expires_at(self) -> float:
        """Return the earliest expiry of the records."""
        records = (record for record in (self.session, self.user, self.directory_user, self.grants) if record is not None)
        return min(math.inf if record.expires is None else record.expires for record in records)

    def are_current(self, replica: Replica, identity: Identity) -> bool:
        user_id = identity.user_id
        return (
            replica.version(SESSION, self.session.id) == self.session.version
            and replica.version(USER, user_id) == _version(self.user)
            and replica.version(DIRECTORY_USER, user_id) == _version(self.directory_user)
            and (not self.uses_grants or replica.version(ACCESS_GRANT, identity.principal_id) == _version(self.grants))
        )


class CachedIdentity:
    """Cached identity with the records that it was built from.

    `writes` is the replica's write count at the last check of these records, -1 before the first.
    """

    __slots__ = ("expires_at", "identity", "sources", "writes")

    def __init__(self, identity: Identity, sources: IdentitySourceRecords):
        self.identity, self.sources, self.writes = identity, sources, -1
        # The expiry of a record causes no write.
        self.expires_at = min(identity.expires_at, sources.expires_at)


class IdentityLoader:
    """Cache of identities.  Record versions are compared at each use.  A change of any group clears the cache."""

    def __init__(self, replica: Replica, sessions: SessionReader, *, uses_grants: bool = False):
        self._replica = replica
        self._uses_grants = uses_grants
        self._sessions = sessions
        self._cached: BoundedCache[str, CachedIdentity] = BoundedCache(MAX_CACHED, MAX_CACHE_BYTES)
        self._bearers: BoundedCache[str, tuple[SessionRecord, int | None, Identity]] = BoundedCache(MAX_CACHED, MAX_CACHE_BYTES)
        self._generation = 0
        # Weak reference, because the replica outlives this loader across reloads.
        loader = weakref.ref(self)
        replica.on_change(lambda change: _forget(loader(), change))

    @classmethod
    def from_options(cls, options: Options, replica: Replica) -> "IdentityLoader":
        return cls(replica, SessionReader(options), uses_grants=options.uses_temporary_access)

    def __repr__(self) -> str:
        return f"<IdentityLoader {len(self._cached)} cached>"

    def peek(self, session_id: str, now: float) -> Identity | None:
        """Return the cached identity.  None means that `load` must be called."""
        cached = self._cached.get(session_id)
        if cached is None or now >= cached.expires_at:
            return None
        # Usually no record has changed since the last request of this session.
        writes = self._replica.writes
        if cached.writes != writes:
            if not cached.sources.are_current(self._replica, cached.identity):
                return None
            cached.writes = writes
        return cached.identity

    # enforcement-point: Identity: Sessions of browsers
    async def find_browser_identity(self, session_id: str, now: float) -> Identity | None:
        """Return the identity of a browser's session from the cache, or load it.  An agent's session is valid with its access token only.

        Raises BrokerError.
        """
        identity = self.peek(session_id, now) or await self.load(session_id, now)
        return None if identity is not None and identity.client_id else identity

    async def find_agent_identity(self, session_id: str, now: float) -> Identity | None:
        """Return the identity of an agent's session, whose access token the caller has verified.  Raises BrokerError."""
        identity = self.peek(session_id, now) or await self.load(session_id, now)
        return identity if identity is not None and identity.client_id else None

    async def load(self, session_id: str, now: float) -> Identity | None:
        """Load the identity of a session.

        None if the session does not exist, has expired, belongs to another provider, or is malformed.  Raises BrokerError.
        """
        generation = self._generation
        record = await self._replica.get(SESSION, session_id)
        if record is None or (session := self._sessions.read_valid(record)) is None:
            return None
        try:
            sources, identity = await self._build(session, record)
        except MALFORMED as error:
            report_malformed(SESSION, session_id, error)
            return None
        if now >= identity.expires_at:
            return None
        if generation == self._generation:
            self._remember(session_id, sources, identity)
        return identity

    async def for_bearer(self, session: SessionRecord, user: UserRecord) -> Identity | InvalidToken:
        """Return the identity of a verified token.  Its claims replace the user record; the directory record is used as well.

        Returns InvalidToken if the claims are malformed, or the user is deactivated, because a token outlives the refusal of a sign-in.
        External tokens have no directory record.  Raises BrokerError.
        """
        generation, known = self._generation, self._bearers.get(session.id)
        provider = self._sessions.providers.get(session.provider)
        directory_record = None if session.provider == JWT else await find_directory_record(session, provider, self._replica.get)
        if known is not None and known[0] is session and known[1] == _version(directory_record):
            return known[2]
        try:
            if (directory_user := directory_user_for_session(session, directory_record)) is not None and directory_user.is_deactivated:
                return InvalidToken(f"bearer token: {session.user_id} is deactivated")
            identity = await self._identity(session, user, directory_record)
        except MALFORMED as error:
            log.warning("malformed bearer token claims", user_id=session.user_id, error=type(error).__name__)
            return InvalidToken("bearer token: its claims are malformed")
        if generation == self._generation:
            held = session, _version(directory_record), identity
            self._bearers.put(session.id, held, estimate_size(held))
        return identity

    async def for_sign_in(self, record: Record, now: float) -> Identity | InvalidToken | None:
        """Return the identity that a sign-in of a recorded user would have now, for explanations only.

        None if the issuer is not configured or the record is malformed.  InvalidToken if the directory deactivated the user.  Raises
        BrokerError.
        """
        try:
            user = UserRecord.from_record(record)
            provider, _, subject = user.id.partition("/")
            session = SessionRecord("", user.id, subject, provider, now, math.inf, user.claims, issuer=user.effective_issuer)
            configured = self._sessions.providers.get(provider)
            if configured is None or not is_session_issuer(configured, session):
                return None
            directory_record = await find_directory_record(session, configured, self._replica.get)
            directory_user = directory_user_for_session(session, directory_record) if configured.has_directory else None
            if directory_user is not None and directory_user.is_deactivated:
                return InvalidToken(f"{user.id} is deactivated")
            return await self._identity(session, user, directory_record, await self._access_record(session, user))
        except MALFORMED as error:
            report_malformed(USER, record.id, error)
            return None

    async def _build(self, session: SessionRecord, record: Record) -> tuple[IdentitySourceRecords, Identity]:
        user_record, directory_record = await asyncio.gather(
            self._replica.get(USER, session.user_id), self._replica.get(DIRECTORY_USER, session.user_id)
        )
        user = user_for_session(session, user_record)
        access_record = await self._access_record(session, user)
        sources = IdentitySourceRecords(
            _without_data(record),
            _without_data(user_record),
            _without_data(directory_record),
            _without_data(access_record),
            self._uses_grants,
        )
        return sources, await self._identity(session, user, directory_record, access_record)

    async def _access_record(self, session: SessionRecord, user: UserRecord) -> Record | None:
        """Return the user's record of temporary access.  None if no rule uses grants, so that no record is fetched in vain."""
        if not self._uses_grants:
            return None
        return await self._replica.get(ACCESS_GRANT, self._holder(session, user).id)

    def _holder(self, session: SessionRecord, user: UserRecord) -> GrantSubject:
        provider = self._sessions.providers.get(session.provider)
        return grant_subject(session.user_id, session.effective_issuer, linked_id_for(user, session.claims, provider))

    async def _identity(
        self, session: SessionRecord, user: UserRecord, directory_record: Record | None, access_record: Record | None = None
    ) -> Identity:
        provider = self._sessions.providers.get(session.provider)
        directory_user = directory_user_for_session(session, directory_record) if provider is None or provider.has_directory else None
        has_names = provider is not None and provider.kind in KINDS_WITH_GROUP_NAMES
        prefix = provider.record_id_prefix if provider is not None else ""
        groups = await self._groups(session, directory_user.group_ids if directory_user else (), prefix)
        facts = IdentityInputs(
            session=session,
            user=user,
            directory_user=directory_user,
            group_names=tuple(_interned(group.name) for group in groups if group.name),
            matchable_group_names=await self._matchable_group_names(groups, prefix) if has_names else frozenset(),
            access={
                access.key: GrantPeriod(access.started_at, access.expires_at)
                for access in _latest_per_route(active_grants(self._holder(session, user), access_record))
            },
        )
        if provider is None and session.provider != JWT:
            raise ValueError("of a provider that is not configured")
        return build_identity(facts, provider)

    async def _groups(self, session: SessionRecord, ids: tuple[str, ...], prefix: str) -> list[DirectoryGroup]:
        records = await asyncio.gather(*(self._replica.get(DIRECTORY_GROUP, prefix + id) for id in ids))
        return [group for record in records if (group := group_for_session(session, record)) is not None]

    async def _matchable_group_names(self, groups: list[DirectoryGroup], prefix: str) -> frozenset[str]:
        """Return group names that rules may match.

        A name that equals the id of another group is excluded, because a group's owner could otherwise match another group's rule.
        """
        names = [_interned(name) for group in groups for name in (group.name, group.email) if name]
        same_ids = await asyncio.gather(*(self._replica.get(DIRECTORY_GROUP, prefix + name) for name in names))
        return frozenset(name for name, same_id in zip(names, same_ids, strict=True) if same_id is None)

    def _remember(self, session_id: str, sources: IdentitySourceRecords, identity: Identity) -> None:
        self._cached.put(session_id, CachedIdentity(identity, sources), estimate_size(identity))
        object.__setattr__(identity, "sources", sources)

    def forget(self, change: RecordChange) -> None:
        if change is CACHE_CLEARED or change.type == DIRECTORY_GROUP:
            self._generation += 1
            self._cached.clear()
            self._bearers.clear()
        elif change.type == SESSION:
            self._cached.pop(change.id)


def _latest_per_route(held: tuple[AccessGrant, ...]) -> list[AccessGrant]:
    """Sort grants by expiry, so that the latest of each route is effective."""
    return sorted(held, key=lambda access: access.expires_at)


def _interned(name: str) -> str:
    """Return the shared copy of a group name, because each identity parses its own."""
    return intern(name) if type(name) is str else name


def _version(record: Record | None) -> int | None:
    return None if record is None else record.version


@overload
def _without_data(record: Record) -> Record: ...
@overload
def _without_data(record: None) -> None: ...
def _without_data(record: Record | None) -> Record | None:
    """Return the record without its data, which the identity has in another form."""
    return None if record is None else replace(record, data=EMPTY_DATA)


def _forget(loader: IdentityLoader | None, change: RecordChange) -> None:
    if loader is not None:
        loader.forget(change)
