"""Types of the external authorization server (envoy.service.auth.v3), without gRPC, which not every process imports."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from authorize.authorizer import AuthorizationResult, Authorizer
from authorize.decision_log.decision_log import DecisionRecorder
from authorize.policy.decision import Outcome
from authorize.policy.policy_request import PolicyRequest
from databroker.replica import Replica
from foundation.errors import BadRequest, BrokerError
from foundation.web.asgi_types import Header

# Maximum time in seconds that a decision waits for records that the data plane has already seen.
CATCH_UP_TIMEOUT = 2.0


@dataclass(frozen=True, slots=True)
class EnvoyRequest:
    """Request as reported by an external Envoy, which forwards it by the route `route_id`.

    `parse_error` is set if the path is ambiguous.
    """

    request: PolicyRequest
    headers: Sequence[Header]
    cookies: Sequence[bytes]
    client_address: str
    request_id: str
    started_at: float  # of a monotonic clock
    route_id: str = ""
    parse_error: BadRequest | None = None


@dataclass(frozen=True, slots=True)
class DeniedResponse:
    """Response that Envoy sends to the client instead of forwarding the request."""

    status: int
    headers: Sequence[Header]
    body: bytes


class OkResponse(NamedTuple):
    """Response that allows a request, with everything that its serialized form depends on."""

    outcome: Outcome
    route_id: str
    identity_headers: tuple[Header, ...]
    headers_to_set: tuple[Header, ...]
    headers_to_remove: tuple[bytes, ...]


class CheckResponder(Protocol):
    """Builder of responses for external Envoys.

    The proxy implements it (`proxy/planes/ext_authz.py`), and the composition root injects it.
    """

    async def respond(self, request: EnvoyRequest) -> OkResponse | DeniedResponse: ...


@dataclass(frozen=True, slots=True)
class ExtAuthzDependencies:
    """Dependencies of the external authorization server.

    `authorize` and `responder` are called per request, because a reload replaces them.  `timeout` is in seconds.
    """

    authorize: Callable[[], Authorizer]
    responder: Callable[[], CheckResponder]
    replica: Replica
    recorder: DecisionRecorder
    timeout: float = CATCH_UP_TIMEOUT


def require_same_route(authorization: AuthorizationResult, route_id: str) -> None:
    """Raise BrokerError if the data plane matched another route, because it forwards by its own match."""
    decided_id = authorization.decision.compiled_route.id if authorization.decision.compiled_route is not None else ""
    if route_id and route_id != decided_id:
        raise BrokerError("the data plane and authorize selected different routes. Configure both alike")
