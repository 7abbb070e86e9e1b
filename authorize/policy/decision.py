"""Decision whether a caller may make a request.  Pure functions of their arguments: no clock, no network, no Django."""

from dataclasses import dataclass
from enum import Enum

from authorize.policy.compiled_route import CompiledRoute
from authorize.policy.criterion import EvaluationContext, TraceStep
from authorize.policy.identity import Identity
from authorize.policy.policy_request import PolicyRequest
from authorize.policy.reasons import Reason
from authorize.policy.route_table import RouteTable
from authorize.policy.truth import CAN_BE_FALSE, CAN_BE_TRUE, FALSE, TRUE


class Outcome(Enum):
    ALLOWED = "allowed"
    SIGN_IN = "sign in"
    STEP_UP = "stronger sign-in"
    FORBIDDEN = "forbidden"
    CERTIFICATE = "client certificate"
    NO_ROUTE = "no route"


@dataclass(frozen=True, slots=True)
class Decision:
    """Decision with the trace of evaluated rules.

    `trace` is in order of evaluation and ends with the deciding rule.  `context` is the evaluated context.
    """

    outcome: Outcome
    compiled_route: CompiledRoute | None
    trace: tuple[TraceStep, ...]
    context: EvaluationContext | None = None

    @property
    def is_allowed(self) -> bool:
        return self.outcome is Outcome.ALLOWED

    @property
    def is_preflight(self) -> bool:
        """Return whether the request was allowed as a CORS preflight.  Browsers send none with credentials, so none may be forwarded."""
        return self.outcome is Outcome.ALLOWED and self.trace[-1].reason is Reason.PREFLIGHT


NO_ROUTE = Decision(Outcome.NO_ROUTE, None, ())


def decide(request: PolicyRequest, identity: Identity | None, routes: RouteTable, now: float) -> Decision:
    """Return the decision on a request.  `identity` is None for an anonymous caller.

    Raises BadRequest if the path is ambiguous on its host.
    """
    route = routes.match(request)
    return NO_ROUTE if route is None else evaluate_route(request, identity, route, now)


# enforcement-point: Authorization: Policy decision
def evaluate_route(request: PolicyRequest, identity: Identity | None, route: CompiledRoute, now: float) -> Decision:
    """Return the decision for a matched route.  `now` is in Unix seconds.

    Requirements take precedence over deny rules, and deny rules over allow rules.  A deny rule must evaluate to FALSE.  Any allow rule
    suffices.  An allowed user must also meet the route's authentication requirements.
    """
    decision = _evaluate(request, identity, route, now)
    return _require_step_up(decision, route) if route.authentication_requirements else decision


def _evaluate(request: PolicyRequest, identity: Identity | None, route: CompiledRoute, now: float) -> Decision:
    context, trace = EvaluationContext(request, identity, now, route.route), list[TraceStep]()
    for requirement in route.certificate_requirements:
        if requirement(context, trace) != TRUE:
            return Decision(Outcome.CERTIFICATE, route, tuple(trace), context)
    deny_depends_on_identity = False
    for deny in route.deny_rules:
        value = deny(context, trace)
        if value == FALSE:
            continue
        if identity is not None or not value & CAN_BE_FALSE:
            return Decision(Outcome.FORBIDDEN, route, tuple(trace), context)
        deny_depends_on_identity = True
    return _evaluate_allow(context, trace, route, deny_depends_on_identity=deny_depends_on_identity)


def _evaluate_allow(
    context: EvaluationContext, trace: list[TraceStep], route: CompiledRoute, *, deny_depends_on_identity: bool
) -> Decision:
    """Evaluate the allow rules.

    `deny_depends_on_identity` is True if a deny rule depends on the identity of an anonymous caller.
    """
    # Routes without a policy prompt for sign-in before they deny.
    sign_in_could_allow = not route.has_policy
    for allow in route.allow_rules:
        value = allow(context, trace)
        # A preflight carries no identity, so it cannot depend on one.
        if value == TRUE and (not deny_depends_on_identity or trace[-1].reason is Reason.PREFLIGHT):
            return Decision(Outcome.ALLOWED, route, tuple(trace), context)
        sign_in_could_allow = sign_in_could_allow or bool(value & CAN_BE_TRUE)
    wants_sign_in = context.identity is None and sign_in_could_allow
    return Decision(Outcome.SIGN_IN if wants_sign_in else Outcome.FORBIDDEN, route, tuple(trace), context)


def _require_step_up(decision: Decision, route: CompiledRoute) -> Decision:
    """Require step-up if the route's authentication requirements are not met.

    It applies to allowed requests, and to requests denied by rules that check the sign-in itself.
    """
    context = decision.context
    step_up_could_allow = (
        decision.outcome is Outcome.FORBIDDEN and context is not None and context.identity is not None and route.policy_checks_auth_strength
    )
    if context is None or decision.is_preflight or not (decision.is_allowed or step_up_could_allow):
        return decision
    steps: list[TraceStep] = []
    for requirement in route.authentication_requirements:
        if requirement(context, steps) != TRUE:
            outcome = Outcome.SIGN_IN if context.identity is None else Outcome.STEP_UP
            return Decision(outcome, route, (*decision.trace, *steps), context)
    # The deciding step must remain last.
    return Decision(decision.outcome, route, (*steps, *decision.trace), context)
