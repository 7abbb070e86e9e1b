"""Authorization pipeline of all planes: one decision, one shadow outcome, one verdict and one record for each request."""

import time
from collections.abc import Callable
from dataclasses import replace

from prometheus_client import Counter

from authorize.authorizer import Authorizer
from authorize.decision_log.shadow_policy import log_shadow_outcome
from authorize.policy.decision import Decision
from config.options import Options
from config.routes.route_mcp import is_mcp_endpoint
from foundation.telemetry import metrics
from foundation.telemetry.tracing.spans import active_span
from proxy.incoming_request import IncomingRequest
from proxy.observe.mcp_metrics import McpDecisionCounter
from proxy.observe.request_recorder import RequestContext, RequestRecorder
from proxy.observe.request_spans import authorize_span
from proxy.planes.shared_resources import SharedResources
from proxy.responses.renderer import VerdictRenderer
from proxy.verdict import RequestDecision
from proxy.verdict_builder import VerdictBuilder


class AuthorizationPipeline:
    """Authorization pipeline of one configuration.

    `authorizer` decides, `verdicts` builds the verdict, `renderer` sends gate's responses, `recorder` logs each request.
    """

    def __init__(self, options: Options, authorizer: Authorizer, resources: SharedResources, clock: Callable[[], float] = time.time):
        self.authorizer, self.clock = authorizer, clock
        self.verdicts, self.renderer = VerdictBuilder(options, authorizer), VerdictRenderer(options)
        self.recorder = RequestRecorder(resources.decision_log, resources.on_session_activity)
        self._streams = resources.streams

    async def authorize(self, context: RequestContext) -> RequestDecision:
        """Authorize a request, then record its decision and evaluate shadow mode, which does not change it.

        Raises BadRequest if the request is ambiguous, and BrokerError.
        """
        return await self.record_decision(await self.authorize_only(context), context)

    async def authorize_only(self, context: RequestContext) -> RequestDecision:
        """Authorize without shadow outcome and metrics, for a caller that records them in another context of the same request."""
        incoming, access_change_count, started_at = context.incoming, self._streams.access_change_count, time.perf_counter()
        pending = self.authorizer.check(incoming.request, incoming.cookie_headers, incoming.request_id)
        try:
            authorization = await (pending if active_span() is None else authorize_span(pending))
        finally:
            context.decision_seconds = time.perf_counter() - started_at
        if (route := authorization.decision.compiled_route) is not None and route.route.mcp is not None:
            incoming.is_mcp = is_mcp_endpoint(route.route, incoming.request.path)
        context.decision = decision = RequestDecision(incoming, authorization, self.clock(), access_change_count)
        return decision

    async def record_decision(self, decision: RequestDecision, context: RequestContext) -> RequestDecision:
        """Count the decision, and return it with its shadow outcome, which is logged.  Must be called once per request."""
        _count(decision.authorization.decision)
        if message := decision.incoming.request.mcp:
            _mcp_counter.count(message, decision.authorization.decision)
        return await self._evaluate_shadow(decision, context) if self.authorizer.has_shadow else decision

    async def _evaluate_shadow(self, decision: RequestDecision, context: RequestContext) -> RequestDecision:
        incoming, authorization = decision.incoming, decision.authorization
        shadow_outcome = await self.authorizer.evaluate_shadow(incoming.request, authorization, incoming.cookie_headers)
        if shadow_outcome is not None:
            context.decision = decision = replace(decision, shadow_outcome=shadow_outcome)
            log_shadow_outcome(incoming.request_id, authorization.decision, authorization.identity, shadow_outcome)
        return decision

    async def reauthorize(self, incoming: IncomingRequest) -> RequestDecision:
        """Authorize a forwarded request again.  Nothing is recorded, because it is not a new request."""
        authorization = await self.authorizer.check(incoming.request, incoming.cookie_headers)
        return RequestDecision(incoming, authorization, self.clock(), self._streams.access_change_count)


_mcp_counter = McpDecisionCounter()
_counters: dict[tuple[int, int], Counter] = {}


def _count(decision: Decision) -> None:
    reason = decision.trace[-1].reason if decision.trace else None
    key = id(decision.outcome), id(reason)  # ids, because members of enumerations hash slowly
    if (counter := _counters.get(key)) is None:
        labels = decision.outcome.value, reason.name.lower() if reason is not None else ""
        counter = _counters[key] = metrics.decisions.labels(*labels)
    counter.inc()
