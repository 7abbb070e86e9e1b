"""Request judge: authorize is asked once about each, and about what is in shadow besides."""

import time
from collections.abc import Callable
from dataclasses import replace

from prometheus_client import Counter

from authorize.client import Authorizer
from authorize.policy.decision import Decision
from foundation.telemetry import metrics
from foundation.telemetry.tracing.spans import active
from proxy.incoming import IncomingRequest
from proxy.observe.access_log import RequestLog
from proxy.observe.spans import judged_in_span
from proxy.planes.open_streams import OpenStreams
from proxy.verdict import JudgedRequest


class RequestJudge:
    def __init__(self, authorize: Authorizer, streams: OpenStreams, clock: Callable[[], float]):
        self._authorize = authorize
        self._streams = streams
        self._clock = clock

    async def judge(self, log: RequestLog) -> JudgedRequest:
        """Judge a request.  Raises BadRequest and BrokerError.  What is in shadow is asked afterwards, and changes nothing."""
        return await self.with_shadow(await self.without_shadow(log), log)

    async def without_shadow(self, log: RequestLog) -> JudgedRequest:
        """Judge without shadow outcomes and metrics, for who may leave them to another log of the same request."""
        incoming, changes, began = log.incoming, self._streams.changes, time.perf_counter()
        asked = self._authorize.check(incoming.request, incoming.cookies, incoming.request_id)
        try:
            check = await (asked if active() is None else judged_in_span(asked))
        finally:
            log.seconds = time.perf_counter() - began
        log.judged = judged = JudgedRequest(incoming, check, self._clock(), changes)
        return judged

    async def with_shadow(self, judged: JudgedRequest, log: RequestLog) -> JudgedRequest:
        """Judged request with its shadow outcome; this and the decision are counted once a request."""
        _count(judged.check.decision)
        if not self._authorize.has_shadow:
            return judged
        incoming, check = judged.incoming, judged.check
        would_be = await self._authorize.would_be(incoming.request, check, incoming.cookies)
        if would_be is not None:
            judged = replace(judged, would_be=would_be)
            log.would_be(judged, would_be)
        return judged

    async def again(self, incoming: IncomingRequest) -> JudgedRequest:
        """Decision anew on what is being carried: no new request, so nothing is kept of it."""
        check = await self._authorize.check(incoming.request, incoming.cookies)
        return JudgedRequest(incoming, check, self._clock(), self._streams.changes)


_counters: dict[tuple[int, int], Counter] = {}


def _count(decision: Decision) -> None:
    reason = decision.trace[-1].reason if decision.trace else None
    key = id(decision.outcome), id(reason)  # members of enumerations, which are hashed slowly
    if (counter := _counters.get(key)) is None:
        labels = decision.outcome.value, reason.name.lower() if reason is not None else ""
        counter = _counters[key] = metrics.decisions.labels(*labels)
    counter.inc()
