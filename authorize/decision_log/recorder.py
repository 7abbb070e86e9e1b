"""Decision recorder of the authorize service: logs what proxies of other processes ask, and when a session was last seen.

What a proxy's AuthorizationPipeline does for the requests that it answers itself stands here once more, as far as it is known here: they
have the answer besides (its status, the verdict's own problem, spans), without which nothing may be logged there, and the recorder ends
where the decision does.  What both note is one thing each: DecisionLog, `failure_of`, `tell_shadow`, and `saw`.
"""

import time
from collections.abc import Callable, Sequence

from authorize.client import Authorizer, Check
from authorize.decision_log.log import DecisionLog, DecisionLogEntry, failure_of
from authorize.decision_log.shadow import tell_shadow
from authorize.policy.request import AccessRequest
from foundation.errors import GateError

Saw = Callable[[str, float, str], None]


class DecisionRecorder:
    """Recorder of checks.  `saw` hears of each request that is let in with a session: session id, when, the host."""

    def __init__(self, decisions: DecisionLog, saw: Saw, clock: Callable[[], float] = time.time):
        self._decisions = decisions
        self._saw = saw
        self._clock = clock

    async def check(self, authorize: Authorizer, request: AccessRequest, cookies: Sequence[bytes], request_id: str) -> Check:
        """Check as `authorize.check`.  Without a request id it is no request (a stream that is judged anew), and nothing is kept."""
        if not request_id:
            return await authorize.check(request, cookies)
        judged, began = DecisionLogEntry(request_id, request, None, None, 0.0, request.source_ip), time.perf_counter()
        try:
            check = await authorize.check(request, cookies, request_id)
        except GateError as error:
            judged.failure, judged.problem = failure_of(error.status), error.in_full
            judged.seconds = time.perf_counter() - began
            self._keep(judged)
            raise
        judged.seconds = time.perf_counter() - began
        judged.decision, judged.identity, judged.refused_token = check.decision, check.identity, check.refused_token
        if authorize.has_shadow and (would_be := await authorize.would_be(request, check, cookies)) is not None:
            judged.would_be = would_be
            tell_shadow(request_id, check.decision, check.identity, would_be)
        if check.identity is not None:
            judged.sources = check.identity.sources
            if check.decision.is_allowed:
                self._saw(check.identity.session_id, self._clock(), request.host_port)
        self._keep(judged)
        return check

    def _keep(self, judged: DecisionLogEntry) -> None:
        if self._decisions.keeps(judged.decision, judged.identity, judged.refused_token, judged.would_be):
            self._decisions.keep(judged)
