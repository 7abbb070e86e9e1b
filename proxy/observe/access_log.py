"""Access log: one line for each request, and a decision for the decision log."""

import logging
import time
from dataclasses import dataclass
from functools import partial
from typing import Any

from authorize.client import ShadowOutcome
from authorize.decision_log.log import DecisionLog, DecisionLogEntry, failure_of
from authorize.decision_log.recorder import Saw
from authorize.decision_log.shadow import tell_shadow
from authorize.policy.decision import Decision
from authorize.policy.identity import Identity
from foundation.telemetry.http_calls import CLIENT_LEFT
from foundation.telemetry.logs import tell_access
from foundation.telemetry.tracing.spans import active
from foundation.web.asgi import Send
from proxy.forwarding.http import Ending, ForwardResult
from proxy.incoming import IncomingRequest
from proxy.observe.spans import tell_trace
from proxy.verdict import JudgedRequest, Refuse, Verdict


class RequestLog:
    """Log of one request: whoever answers it says what was judged, what became of that, and how it ended.

    The line in the access log leaves the query out: applications put secrets there.
    """

    __slots__ = ("_observer", "incoming", "judged", "problem", "result", "seconds", "seconds_in_all", "status")

    def __init__(self, incoming: IncomingRequest, observer: "Observer"):
        self.incoming = incoming
        self._observer = observer
        self.judged: JudgedRequest | None = None
        self.seconds: float | None = None  # that the decision took, though it failed
        self.seconds_in_all: float | None = None  # where somebody else has measured them
        self.result: ForwardResult | None = None
        self.status: int | None = None
        self.problem = ""

    def passes(self, judged: JudgedRequest) -> None:
        """Note that it is let through: whose session it is was seen."""
        if judged.check.identity is not None:
            self._observer.saw(judged.session_id, judged.now, judged.incoming.request.host_port)

    def would_be(self, judged: JudgedRequest, would_be: ShadowOutcome) -> None:
        """Note the shadow outcome, told at once, and once."""
        self.judged = judged
        tell_shadow(self.incoming.request_id, judged.check.decision, judged.check.identity, would_be)

    def answered(self, verdict: Verdict, status: int) -> None:
        self.status = status
        if isinstance(verdict, Refuse):
            self.refused(verdict)

    def refused(self, refusal: Refuse) -> Refuse:
        """Note a refusal, before it is sent: a client that has gone by then was refused all the same."""
        self.status, self.problem = refusal.status, refusal.problem or self.problem
        return refusal

    def tell(self) -> None:
        if self.status is None:
            self.status = (self.result.status or CLIENT_LEFT) if self.result else 500
        is_trouble = bool(self.problem) or (self.result is not None and self.result.ending is Ending.BROKE_OFF)
        level = logging.WARNING if is_trouble else logging.INFO
        tell_access(level, self._fields)
        if active() is not None:
            tell_trace(self.incoming, self.judged.check if self.judged is not None else None, self.status, is_trouble=is_trouble)
        if self.seconds is not None:
            self._observer.keep(self, self.seconds)

    def _fields(self) -> dict[str, object]:
        fields = _asked(self.incoming, self.status)
        if self.seconds_in_all is not None:
            fields["duration_ms"] = round(self.seconds_in_all * 1000, 2)
        if (judged := self.judged) is not None:
            check = judged.check
            fields |= decided(check.decision)
            fields |= person_fields(check.identity)
            if check.refused_token:
                fields["refused_token"] = check.refused_token
            fields["decision_ms"] = round((self.seconds or 0.0) * 1000, 3)
            if judged.sources is not None:
                fields["data_version"] = judged.sources.version
        if self.result is not None:
            fields |= {"bytes_sent": self.result.bytes_sent, "ending": self.result.ending.value}
            if self.result.bytes_received is not None:
                fields["bytes_received"] = self.result.bytes_received
        if self.problem:
            fields["problem"] = self.problem
        return fields


def person_fields(identity: Identity | None) -> dict[str, object]:
    """The account, and the person whose it is where accounts are linked."""
    linked = {"person": identity.linked_id} if identity is not None and identity.linked_id else {}
    return {"user_id": identity.user_id if identity is not None else "", **linked}


@dataclass(frozen=True, slots=True)
class Observer:
    """Listeners of requests, besides the access log: `saw` of sessions, `decisions` of what is to be kept."""

    decisions: DecisionLog
    saw: Saw

    def begin(self, incoming: IncomingRequest) -> RequestLog:
        return RequestLog(incoming, self)

    def keep(self, log: RequestLog, seconds: float) -> None:
        judged, incoming = log.judged, log.incoming
        check, would_be = (judged.check, judged.would_be) if judged is not None else (None, None)
        decision, identity, refused = (check.decision, check.identity, check.refused_token) if check is not None else (None, None, "")
        if not self.decisions.keeps(decision, identity, refused, would_be):
            return
        sources = judged.sources if judged is not None else None
        asked = (incoming.request_id, incoming.request, decision, identity, seconds, incoming.client_address)
        self.decisions.keep(DecisionLogEntry(*asked, 0.0, sources, would_be, failure_of(log.status), log.problem, refused))


class PageLog:
    """Log of a request that no route was asked about: a page of ours, an unknown host, one that can't be read.

    Error pages show the request id and ask people to pass it on: whoever gets it finds this line.
    """

    __slots__ = ("_incoming", "_send", "_status")

    def __init__(self, incoming: IncomingRequest, send: Send):
        self._incoming = incoming
        self._send = send
        self._status: int | None = None

    async def send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
        await self._send(message)

    def tell(self) -> None:
        status = CLIENT_LEFT if self._status is None else self._status
        level = logging.WARNING if status >= 500 else logging.INFO
        tell_access(level, partial(self._fields, status))

    def _fields(self, status: int) -> dict[str, object]:
        fields = _asked(self._incoming, status)
        if self._incoming.told:
            fields["reason"] = self._incoming.told
        return fields


def _asked(incoming: IncomingRequest, status: int | None) -> dict[str, object]:
    request = incoming.request
    return {
        "request_id": incoming.request_id,
        "client": incoming.client_address,
        "method": request.method,
        "host": request.host_port,
        "path": request.path,
        "status": status,
        "duration_ms": round((time.monotonic() - incoming.started) * 1000, 2),
    }


def decided(decision: Decision) -> dict[str, object]:
    """What the line says of the decision."""
    return {
        "route": decision.route.id if decision.route else "",
        "route_name": (decision.route.route.name or "") if decision.route else "",
        "outcome": decision.outcome.value,
        "reason": decision.trace[-1].reason.value if decision.trace else "",
    }
