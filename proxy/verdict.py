"""Verdict on a request that was judged, a pure value: the data planes render it, and none of them decides anything."""

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TypeAlias

from authorize.authorizer import AuthorizationResult, ShadowOutcome, WithheldCredentials
from authorize.policy.compiled_route import CompiledRoute
from authorize.policy.identity import IdentitySources
from config.routes.route import Route
from foundation.web.asgi_types import Header, Headers
from proxy.incoming_request import IncomingRequest
from proxy.sign_in.saved_forms import SavedForm
from proxy.upgrades import Upgrade


class Enforcer(Enum):
    """Renderer of the verdict: a plane of ours, which carries what passes, or another proxy, which carries what it asked about."""

    EMBEDDED = auto()
    EXT_AUTHZ = auto()  # somebody's, by ext_authz
    FORWARD_AUTH = auto()  # by forward auth
    FORWARD_AUTH_STATUS_ONLY = auto()  # by forward auth, and what it knows is whether the status is 2xx


@dataclass(slots=True)  # not frozen: one is made for each request
class RequestDecision:
    """Judged request: what was decided about it at `now`, when there had been so many `changes` of records and policy."""

    incoming: IncomingRequest
    check: AuthorizationResult
    now: float
    change_count: int
    shadow_outcome: ShadowOutcome | None = None  # were all that is in shadow enforced

    @property
    def session_id(self) -> str:
        return self.check.identity.session_id if self.check.identity is not None else ""

    @property
    def sources(self) -> IdentitySources | None:
        """Records that the identity was made of."""
        return self.check.identity.sources if self.check.identity is not None else None


@dataclass(frozen=True, slots=True)
class SignIn:
    """Sign-in verdict: a browser goes to the provider, and comes back to what it asked for, or to the page of its kept form."""

    scheme: str
    route: Route | None
    form: SavedForm | None = None


@dataclass(frozen=True, slots=True)
class Redirect:
    status: int
    location: str


@dataclass(frozen=True, slots=True)
class Deny:
    """Refusal of a request.  `challenge` (WWW-Authenticate) says how to prove who one is; `problem` is for the log alone."""

    status: int
    reason: str
    hint: str = ""
    challenge: str = ""
    retry_after: int | None = None
    links: tuple[tuple[str, str], ...] = ()
    extra_headers: Headers = field(default_factory=list)
    log_detail: str = ""

    @property
    def headers(self) -> Headers:
        headers = [(b"www-authenticate", self.challenge.encode("ascii"))] if self.challenge else []
        return headers + ([(b"retry-after", b"%d" % self.retry_after)] if self.retry_after is not None else []) + self.extra_headers


@dataclass(slots=True)  # not frozen: one is made for each request
class Forward:
    """Pass verdict.  Its upstream is `told` who asks, sees of the client's credentials what is not `withheld`, and hears the `offer` to
    change protocols."""

    route: CompiledRoute
    identity_headers: tuple[Header, ...]
    withheld: WithheldCredentials
    offer: Upgrade | None = None


Verdict: TypeAlias = SignIn | Deny | Redirect | Forward
