"""Answers to an Envoy that asks (envoy.service.auth.v3), and what it asks, without gRPC, whose library not every process loads."""

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

# How long a decision waits for records that the data plane has seen already.
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
    """Answer that lets a request through: all that it is made of, and nothing else."""

    outcome: Outcome
    route_id: str
    identity_headers: tuple[Header, ...]
    headers_to_set: tuple[Header, ...]
    headers_to_remove: tuple[bytes, ...]


class CheckResponder(Protocol):
    """Responder for other people's Envoys: what only the proxy knows how to say (`proxy/planes/ext_authz.py`); the roof brings it."""

    async def respond(self, asked: EnvoyRequest) -> OkResponse | DeniedResponse: ...


@dataclass(frozen=True, slots=True)
class ExtAuthzDependencies:
    """Parts that the external authorization server works with; `authorize` and `responder` are asked for at each call, because a reload
    replaces them.  `timeout` in seconds.
    """

    authorize: Callable[[], Authorizer]
    responder: Callable[[], CheckResponder]
    replica: Replica
    recorder: DecisionRecorder
    timeout: float = CATCH_UP_TIMEOUT


def require_same_route(check: AuthorizationResult, route_id: str) -> None:
    """The data plane forwards by its own match, so a decision on any other route would be a decision on nothing."""
    ours = check.decision.route.id if check.decision.route is not None else ""
    if route_id and route_id != ours:
        raise BrokerError("the route of the data plane differs from the one of authorize. Configure both alike")
