"""Verdict on an authorized request: a plain value.  The data planes render verdicts and decide nothing themselves."""

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TypeAlias

from authorize.authorizer import AuthorizationResult, ShadowOutcome, WithheldCredentials
from authorize.policy.compiled_route import CompiledRoute
from authorize.policy.identity import IdentitySources
from config.routes.route import Route
from foundation.web.asgi_types import Header, Headers
from proxy.incoming_request import IncomingRequest
from proxy.mcp.mcp_errors import REFUSED
from proxy.sign_in.saved_forms import SavedForm
from proxy.upgrades import Upgrade


class Enforcer(Enum):
    """Proxy that enforces a verdict: gate's embedded data plane, or another proxy that queries gate and forwards the request itself."""

    EMBEDDED = auto()
    EXT_AUTHZ = auto()  # an external Envoy, over ext_authz
    FORWARD_AUTH = auto()  # a front proxy, over forward auth
    FORWARD_AUTH_STATUS_ONLY = auto()  # a front proxy that evaluates only whether the status is 2xx


@dataclass(slots=True)  # not frozen, because one is created per request
class RequestDecision:
    """Decision about a request at `now` (Unix seconds), made after `access_change_count` changes of records and policy."""

    incoming: IncomingRequest
    authorization: AuthorizationResult
    now: float
    access_change_count: int
    shadow_outcome: ShadowOutcome | None = None  # the outcome if shadow mode were enforced

    @property
    def session_id(self) -> str:
        return self.authorization.identity.session_id if self.authorization.identity is not None else ""

    @property
    def sources(self) -> IdentitySources | None:
        """Return the records that the identity was built from."""
        return self.authorization.identity.sources if self.authorization.identity is not None else None


@dataclass(frozen=True, slots=True)
class SignIn:
    """Verdict that redirects a browser to sign-in.  The browser returns to the requested URL, or to the page of its saved form."""

    scheme: str
    route: Route | None
    form: SavedForm | None = None


@dataclass(frozen=True, slots=True)
class Redirect:
    status: int
    location: str


@dataclass(frozen=True, slots=True)
class McpErrorDetails:
    """JSON-RPC error of a refusal: its code, the rule that decided, and the pages on which to request access or to connect an account."""

    code: int = REFUSED
    rule: str = ""
    access_request_url: str = ""
    connect_url: str = ""


@dataclass(frozen=True, slots=True)
class Deny:
    """Verdict that denies a request.  `challenge` is the value of WWW-Authenticate; `log_detail` goes to the log only.

    `rpc_error` is for clients of MCP servers.
    """

    status: int
    reason: str
    advice: str = ""
    challenge: str = ""
    retry_after: int | None = None
    links: tuple[tuple[str, str], ...] = ()
    extra_headers: Headers = field(default_factory=list)
    log_detail: str = ""
    rpc_error: McpErrorDetails = McpErrorDetails()

    @property
    def headers(self) -> Headers:
        headers = [(b"www-authenticate", self.challenge.encode("ascii"))] if self.challenge else []
        return headers + ([(b"retry-after", b"%d" % self.retry_after)] if self.retry_after is not None else []) + self.extra_headers


@dataclass(slots=True)  # not frozen, because one is created per request
class Forward:
    """Verdict that forwards a request.  The upstream receives the `identity_headers` and the client's `upgrade`, but not the `withheld`
    credentials of the client."""

    compiled_route: CompiledRoute
    identity_headers: tuple[Header, ...]
    withheld: WithheldCredentials
    upgrade: Upgrade | None = None


Verdict: TypeAlias = SignIn | Deny | Redirect | Forward
