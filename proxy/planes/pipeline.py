"""Authorization pipeline of all planes: a request is decided once, and what is in shadow besides; one verdict follows, and one record."""

import time
from collections.abc import Callable
from dataclasses import replace

from prometheus_client import Counter

from authorize.authorizer import Authorizer
from authorize.decision_log.shadow_policy import log_shadow_outcome
from authorize.policy.decision import Decision
from config.options import Options
from foundation.telemetry import metrics
from foundation.telemetry.tracing.spans import active_span
from proxy.incoming_request import IncomingRequest
from proxy.observe.request_recorder import RequestContext, RequestRecorder
from proxy.observe.request_spans import authorize_span
from proxy.planes.shared_resources import SharedResources
from proxy.responses.renderer import VerdictRenderer
from proxy.verdict import RequestDecision
from proxy.verdict_builder import VerdictBuilder


class AuthorizationPipeline:
    """Authorization pipeline, one for each configuration: `authorizer` decides, `verdicts` says what follows, `renderer` sends what is not
    forwarded, `recorder` records all of it."""

    def __init__(self, options: Options, authorizer: Authorizer, resources: SharedResources, clock: Callable[[], float] = time.time):
        self.authorizer, self.clock = authorizer, clock
        self.verdicts, self.renderer = VerdictBuilder(options, authorizer), VerdictRenderer(options)
        self.recorder = RequestRecorder(resources.decisions, resources.on_session_activity)
        self._streams = resources.streams

    async def authorize(self, context: RequestContext) -> RequestDecision:
        """Decide about a request.  Raises BadRequest and BrokerError.  What is in shadow is asked afterwards, and changes nothing."""
        return await self.evaluate_shadow(await self.authorize_only(context), context)

    async def authorize_only(self, context: RequestContext) -> RequestDecision:
        """Decide without shadow outcomes and metrics, for who may leave them to another context of the same request."""
        incoming, change_count, started_at = context.incoming, self._streams.change_count, time.perf_counter()
        check = self.authorizer.check(incoming.request, incoming.cookies, incoming.request_id)
        try:
            checked = await (check if active_span() is None else authorize_span(check))
        finally:
            context.decision_seconds = time.perf_counter() - started_at
        context.decision = decision = RequestDecision(incoming, checked, self.clock(), change_count)
        return decision

    async def evaluate_shadow(self, decision: RequestDecision, context: RequestContext) -> RequestDecision:
        """Judged request with its shadow outcome, which is recorded at once; this and the decision are counted once a request."""
        _count(decision.check.decision)
        if not self.authorizer.has_shadow:
            return decision
        incoming, check = decision.incoming, decision.check
        shadow_outcome = await self.authorizer.evaluate_shadow(incoming.request, check, incoming.cookies)
        if shadow_outcome is not None:
            context.decision = decision = replace(decision, shadow_outcome=shadow_outcome)
            log_shadow_outcome(incoming.request_id, check.decision, check.identity, shadow_outcome)
        return decision

    async def reauthorize(self, incoming: IncomingRequest) -> RequestDecision:
        """Decide anew about what is being forwarded: no new request, so nothing is recorded."""
        check = await self.authorizer.check(incoming.request, incoming.cookies)
        return RequestDecision(incoming, check, self.clock(), self._streams.change_count)


_counters: dict[tuple[int, int], Counter] = {}


def _count(decision: Decision) -> None:
    reason = decision.trace[-1].reason if decision.trace else None
    key = id(decision.outcome), id(reason)  # members of enumerations, which are hashed slowly
    if (counter := _counters.get(key)) is None:
        labels = decision.outcome.value, reason.name.lower() if reason is not None else ""
        counter = _counters[key] = metrics.decisions.labels(*labels)
    counter.inc()
