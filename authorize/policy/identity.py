"""Identity of a caller, in the form that criteria compare."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from config.routes.route_bearer_tokens import ISSUER_SEPARATOR, JWT
from config.settings.provider_entry import RESERVED_IDS
from foundation.email_address import unambiguous_name

# Prefix of the session id of a caller who has a provider's token instead of a session.
BEARER = "bearer/"

# Accepted clock difference between the process that granted access and this one.
CLOCK_SKEW_SECONDS = 60.0


class GrantPeriod(NamedTuple):
    """Period of a temporary access grant, in Unix seconds."""

    starts_at: float
    expires_at: float

    def covers(self, now: float) -> bool:
        return self.starts_at - CLOCK_SKEW_SECONDS <= now < self.expires_at


class IdentitySources(Protocol):
    """Records that an identity was built from.  `IdentitySourceRecords` implements it."""

    @property
    def modified_at(self) -> dict[str, float]:
        """Return the time of the last change of each record, in Unix seconds, by record name."""

    @property
    def version(self) -> int:
        """Return the newest version among the records."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Authenticated caller in the form that criteria compare.  Times are Unix seconds.

    email: address that the provider claims.
    verified_email: the same address, canonical and in ASCII lower case.  It is empty if no e-mail rule may match: the address is
        unverified, malformed or not a string.  `verified_email_domain` is its domain.
    group_ids: ids of groups.
    group_names: names and e-mail addresses of those groups, without any that is the id of a known group.  Empty for providers whose
        rules take ids only.
    groups: ids, then names, as released to upstreams.
    groups_incomplete: group membership is unknown or partial.  The provider keeps groups elsewhere (OpenID Connect Core 1.0, 5.6.2,
        as Microsoft does for users in more than 200), omits the groups claim, or sends an unreadable value, or the directory has no
        record of the user.  Rules that need an absent group evaluate to UNKNOWN.
    claims: flattened, with dotted keys.  Each value is a tuple of scalars whose type has further meaning (foundation/claim_values.py).
    is_provider_user: a configured provider signed the user in.  False for external tokens and service accounts.
    unqualified_subject: subject of a provider user.  Empty unless there is one provider, because two may issue the same subject.
    is_external: authenticated by a token of an issuer that a route trusts (`bearer_token: jwt`).  Such a caller has no e-mail address
        and no groups, whatever the token claims.  Rules match it by `user_id` and by claims.
    has_oauth_token: authenticated by a provider's token, or by one of gate's authorization server, in the Authorization header, which gate
        consumes and does not forward.
    client_id: OAuth client that acts for the user, "" for browsers.  `scopes` are those of its access token.
    linked_id: id of the user who owns this account, if accounts at several providers are linked, else "".
    grants: temporary access by the access key of its route (config/routes/route.py), or of a tool of the route.
    sources: records that the identity was built from, if it is cached with them.  No rule reads them.
    """

    session_id: str
    user_id: str  # "<provider>/<subject>", "<issuer>#<subject>" if external, or "service_account/<name>"
    subject: str
    provider: str
    expires_at: float
    issued_at: float = 0.0
    auth_time: float = 0.0  # time of the last authentication at the provider, 0 if unknown
    email: str = ""
    verified_email: str = ""
    directory_email: str = ""
    name: str = ""
    group_ids: frozenset[str] = frozenset()
    group_names: frozenset[str] = frozenset()
    groups: tuple[str, ...] = ()
    groups_incomplete: bool = False
    claims: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    grants: Mapping[str, GrantPeriod] = field(default_factory=dict)
    is_single_provider: bool = field(default=True, repr=False)
    linked_id: str = ""
    client_id: str = ""
    scopes: frozenset[str] = frozenset()
    verified_email_domain: str = field(init=False, default="", repr=False, compare=False)
    is_provider_user: bool = field(init=False, default=False, repr=False, compare=False)
    unqualified_subject: str = field(init=False, default="", repr=False, compare=False)
    is_external: bool = field(init=False, default=False, repr=False, compare=False)
    has_oauth_token: bool = field(init=False, default=False, repr=False, compare=False)
    sources: IdentitySources | None = field(init=False, default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "verified_email_domain", self.verified_email.rpartition("@")[2])
        object.__setattr__(self, "is_provider_user", self.provider not in RESERVED_IDS)
        object.__setattr__(self, "unqualified_subject", self.subject if self.is_provider_user and self.is_single_provider else "")
        object.__setattr__(self, "is_external", self.provider == JWT)
        object.__setattr__(self, "has_oauth_token", self.session_id.startswith(BEARER) or bool(self.client_id))

    @property
    def principal_id(self) -> str:
        """Return the id of the user across linked accounts: `linked_id`, else `user_id`."""
        return self.linked_id or self.user_id

    @property
    def issuer(self) -> str:
        """Return the issuer of an external token, else "".  No issuer contains a "#"."""
        return self.user_id.partition(ISSUER_SEPARATOR)[0] if self.is_external else ""

    @property
    def display_name(self) -> str:
        """Return the name to display and to log.  Rules must not compare it."""
        return unambiguous_name(self.email if self.verified_email else "", self.name, self.user_id)
