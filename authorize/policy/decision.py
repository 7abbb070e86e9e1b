"""May this caller make this request?  Values in, a Decision out; no clock, no network, no Django."""

from dataclasses import dataclass
from enum import Enum

from authorize.policy.compiled_route import CompiledRoute
from authorize.policy.criteria import Reason, Step
from authorize.policy.identity import Identity
from authorize.policy.request import AccessRequest
from authorize.policy.route_table import RouteTable


class Outcome(Enum):
    ALLOWED = "allowed"
    SIGN_IN = "sign in"
    FORBIDDEN = "forbidden"
    NO_ROUTE = "no route"


@dataclass(frozen=True, slots=True)
class Decision:
    """`trace` holds every rule that was looked at, in order, up to the one that decided."""

    outcome: Outcome
    route: CompiledRoute | None
    trace: tuple[Step, ...]

    @property
    def is_allowed(self) -> bool:
        return self.outcome is Outcome.ALLOWED

    @property
    def is_preflight(self) -> bool:
        """Let in because it is a CORS preflight, whoever asked: browsers send no credentials with one, so none may pass with it."""
        return self.is_allowed and self.trace[-1].reason is Reason.PREFLIGHT


NO_ROUTE = Decision(Outcome.NO_ROUTE, None, ())


def decide(request: AccessRequest, identity: Identity | None, routes: RouteTable) -> Decision:
    """`identity` is None where nobody is signed in.  BadRequest where the path has no single reading on its host."""
    route = routes.match(request)
    return NO_ROUTE if route is None else judge(request, identity, route)


def judge(request: AccessRequest, identity: Identity | None, route: CompiledRoute) -> Decision:
    """The decision on a route that is already matched.  The rules are OR-ed: any one that holds lets the caller in."""
    trace: list[Step] = []
    for grant in route.grants:
        step = grant(request, identity)
        trace.append(step)
        if step.holds:
            return Decision(Outcome.ALLOWED, route, tuple(trace))
    return Decision(Outcome.SIGN_IN if identity is None else Outcome.FORBIDDEN, route, tuple(trace))
