"""Identity: what is known of a caller, in the form that the criteria compare."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from config.routes.route_bearer_tokens import ISSUER_SEPARATOR, JWT
from config.settings.provider_entry import RESERVED_IDS
from foundation.email_address import unambiguous_name

# What the session ids of those begin with who have no session, but a token of a provider.
BEARER = "bearer/"


# The process that gave access may have a clock that is ahead by so many seconds; one that was set back further lengthens no access.
CLOCKS_DIFFER = 60.0


class AccessSpan(NamedTuple):
    """Span of temporary access, in Unix seconds."""

    since: float
    until: float

    def covers(self, now: float) -> bool:
        return self.since - CLOCKS_DIFFER <= now < self.until


class IdentitySources(Protocol):
    """Records that an identity was made of."""

    @property
    def modified(self) -> dict[str, float]:
        """Time of each one's last change, in Unix seconds."""

    @property
    def version(self) -> int:
        """The newest change that the identity rests on."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A signed-in caller; times are Unix seconds.

    `email` is what the provider claims; `rule_email` is the same in the form that rules compare (canonical, ASCII lower-case),
    and empty wherever no rule on e-mail may match: unverified, malformed, not a string.  `rule_domain` is the domain of that.
    `group_ids` are ids; `group_names` are names and e-mails of those groups, empty for providers whose rules take ids only, and
    without any that is the id of a known group.  `groups` is what upstreams are told: ids, then names.
    `has_untold_groups`: the provider says that it keeps groups of this person elsewhere (OpenID Connect Core 1.0, 5.6.2), as
    Microsoft does with those of who is in more than 200; or it did not give the claim that is to name them, or a value in it can't be
    read; or the directory that is to name them has no record of this person.
    `claims` is flattened: dotted keys, each with a tuple of scalar values, whose kind says what else there is (foundation/claim_values.py).
    `is_own`: a configured provider has signed them in (of another the loader makes no identity), and no token of another issuer or of a
    service account.  `own_subject` is the subject of such a person where that says who it is: where there is one provider (`is_sole`),
    else two may be called alike.
    `is_foreign`: named by a token of an issuer that a route trusts (`bearer_token: jwt`); they have neither e-mail address nor groups,
    whatever the token says, and rules know them by `user_id` and by their claims.
    `linked_id` is the id of the person whose account this is, where accounts at several providers are linked, else "".
    `access` is temporary access, by the access key of its route (config/routes/route.py).
    `sources` are the records that it was made of, where it is remembered with them; no rule looks at them.
    `is_bearer`: named by a token of a provider in the Authorization header, which is then for us and not for the upstream.
    """

    session_id: str
    user_id: str  # the account: "<provider>/<subject>", "<issuer>#<subject>" of a foreign one, "service_account/<name>"
    subject: str
    provider: str
    expires: float
    issued: float = 0.0
    authenticated: float = 0.0  # when they last proved who they are; 0 where that is not known
    email: str = ""
    rule_email: str = ""
    directory_email: str = ""
    name: str = ""
    group_ids: frozenset[str] = frozenset()
    group_names: frozenset[str] = frozenset()
    groups: tuple[str, ...] = ()
    has_untold_groups: bool = False
    claims: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    access: Mapping[str, AccessSpan] = field(default_factory=dict)
    is_sole: bool = field(default=True, repr=False)
    linked_id: str = ""
    rule_domain: str = field(init=False, default="", repr=False, compare=False)
    is_own: bool = field(init=False, default=False, repr=False, compare=False)
    own_subject: str = field(init=False, default="", repr=False, compare=False)
    is_foreign: bool = field(init=False, default=False, repr=False, compare=False)
    is_bearer: bool = field(init=False, default=False, repr=False, compare=False)
    sources: IdentitySources | None = field(init=False, default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rule_domain", self.rule_email.rpartition("@")[2])
        object.__setattr__(self, "is_own", self.provider not in RESERVED_IDS)
        object.__setattr__(self, "own_subject", self.subject if self.is_own and self.is_sole else "")
        object.__setattr__(self, "is_foreign", self.provider == JWT)
        object.__setattr__(self, "is_bearer", self.session_id.startswith(BEARER))

    @property
    def person_id(self) -> str:
        """Id of the person, whichever account they signed in with."""
        return self.linked_id or self.user_id

    @property
    def issuer(self) -> str:
        """Issuer of a foreign one's token.  None has a "#"."""
        return self.user_id.partition(ISSUER_SEPARATOR)[0] if self.is_foreign else ""

    @property
    def shown_as(self) -> str:
        """Name for people to read, also in the decision log; never for a rule to compare."""
        return unambiguous_name(self.email if self.rule_email else "", self.name, self.user_id)
