"""Shadow policy: the outcome if all rules in `mode: shadow` were enforced.  It is logged with the decision and has no effect."""

from collections.abc import Awaitable, Callable

import structlog

from authorize.authorizer import AuthorizationResult, ShadowOutcome
from authorize.identity.client_certificates import ClientCertificates
from authorize.policy.compiled_route import route_name
from authorize.policy.decision import NO_ROUTE, Decision, Outcome, evaluate_route
from authorize.policy.identity import Identity
from authorize.policy.policy_request import PolicyRequest
from authorize.route_settings import route_table
from config.options import Options
from foundation.errors import BadRequest
from foundation.telemetry import metrics

log = structlog.get_logger(__name__)

AMBIGUOUS_PATH = "bad request"

Identify = Callable[[], Awaitable[Identity | None]]


class ShadowPolicy:
    """Second route table that includes shadow rules.  Its decisions are compared with the enforced ones and never used."""

    def __init__(self, options: Options):
        self._table = route_table(options, with_shadow=True) if any(route.has_shadow_rules for route in options.policy) else None
        self.has_shadow_rules = self._table is not None

    def __repr__(self) -> str:
        return f"<ShadowPolicy {self._table or 'of nothing'}>"

    async def evaluate(
        self, request: PolicyRequest, enforced: AuthorizationResult, now: float, identify: Identify, certificates: ClientCertificates
    ) -> ShadowOutcome | None:
        """Return the outcome under the shadow policy, or None if no shadow rule applies to this request.

        `identify` is called only if the outcome depends on the user.
        """
        if self._table is None:
            return None
        try:
            route = self._table.match(request)
        except BadRequest as error:
            return ShadowOutcome(None, AMBIGUOUS_PATH, error.operator_message)
        if route is None:
            return None if enforced.decision.compiled_route is None else _to_outcome(NO_ROUTE)
        if not route.route.has_shadow_rules:
            return None
        request = certificates.with_verification(request, route.client_ca, now)
        decision = evaluate_route(request, enforced.identity, route, now)
        # The caller of a public route has not been identified yet.
        if enforced.identity is None and decision.outcome is Outcome.SIGN_IN and (identity := await identify()) is not None:
            decision = evaluate_route(request, identity, route, now)
        return _to_outcome(decision)


def _to_outcome(decision: Decision) -> ShadowOutcome:
    return ShadowOutcome(decision.compiled_route, decision.outcome.value, decision.trace[-1].reason.value if decision.trace else "")


def log_shadow_outcome(request_id: str, decision: Decision, identity: Identity | None, shadow_outcome: ShadowOutcome) -> None:
    """Count the shadow outcome, and log it if it differs from the enforced decision."""
    route, enforced = route_name(shadow_outcome.compiled_route.route) if shadow_outcome.compiled_route else "", decision.outcome.value
    metrics.shadow_decisions.labels(route, shadow_outcome.outcome, enforced).inc()
    if shadow_outcome.outcome != enforced:
        user_id = identity.user_id if identity else ""
        log.info(
            "shadow decision",
            request_id=request_id,
            route=route,
            user_id=user_id,
            outcome=shadow_outcome.outcome,
            enforced=enforced,
            reason=shadow_outcome.reason,
        )
