"""What happened to one request?  One line in the log, and a decision for the decision log."""

import logging
import time
from typing import Any

from authorize.client import Authorizer, Check
from authorize.decision_log import DecisionLog, Judged
from authorize.policy.decision import Decision
from authorize.shadow import WouldBe, tell_shadow
from gateproject.errors import BrokerError
from gateproject.telemetry.http_calls import CLIENT_LEFT
from gateproject.telemetry.logs import is_access_logged, log_access
from gateproject.telemetry.tracing.spans import active
from proxy.forwarding.http import Ending, ForwardResult
from proxy.headers import TrustedPeers
from proxy.incoming import Incoming, Send, client_address
from proxy.traced import judged_in_span, tell_trace


class Story:
    """What happened to one request, told in one log line.  The query is left out: applications put secrets there."""

    __slots__ = (
        "_authorize", "_decisions", "_is_judged", "_seconds", "_trusted", "_would_be", "check", "incoming", "problem", "result", "status",
    )  # fmt: skip

    def __init__(self, incoming: Incoming, trusted: TrustedPeers, authorize: Authorizer, decisions: DecisionLog):
        self.incoming = incoming
        self._trusted = trusted
        self._authorize = authorize
        self._decisions = decisions
        self._is_judged = False
        self._seconds = 0.0
        self._would_be: WouldBe | None = None
        self.check: Check | None = None
        self.result: ForwardResult | None = None
        self.status: int | None = None
        self.problem = ""

    async def judge(self) -> Check:
        """May it pass?  Raises BadRequest and BrokerError.  What is in shadow is asked afterwards, and changes nothing."""
        check = await self.decide()
        await self.ask_shadow(check)
        return check

    async def decide(self) -> Check:
        """As `judge`, for who may leave the telling to another story of the same request."""
        self._is_judged, began = True, time.perf_counter()
        request, cookies = self.incoming.request, self.incoming.cookies
        try:
            asked = self._authorize.check(request, cookies, self.incoming.request_id)
            self.check = check = await (asked if active() is None else judged_in_span(asked))
        finally:
            self._seconds = time.perf_counter() - began
        return check

    async def ask_shadow(self, check: Check) -> None:
        """What is in shadow is told of each request once."""
        if not self._authorize.has_shadow:
            return
        would_be = await self._authorize.would_be(self.incoming.request, check, self.incoming.cookies)
        if would_be is not None:
            self._would_be = would_be
            tell_shadow(self.incoming.request_id, check.decision, check.identity, would_be)

    def tell(self) -> None:
        if self.status is None:
            self.status = (self.result.status or CLIENT_LEFT) if self.result else 500
        is_trouble = bool(self.problem) or (self.result is not None and self.result.ending is Ending.BROKE_OFF)
        level = logging.WARNING if is_trouble else logging.INFO
        if is_access_logged(level):
            log_access(level, self._fields())
        if active() is not None:
            tell_trace(self.incoming, self.check, self.status, is_trouble=is_trouble)
        self._keep()

    def _keep(self) -> None:
        check = self.check
        decision, identity, refused = (check.decision, check.identity, check.refused_token) if check is not None else (None, None, "")
        if not self._is_judged or not (self._decisions.keeps(decision, identity, refused) or self._would_differ(decision)):
            return
        self._decisions.keep(
            Judged(
                self.incoming.request_id,
                self.incoming.request,
                decision,
                identity,
                self._seconds,
                client_address(self.incoming, self._trusted),
                sources=self._authorize.sources_of(identity) if identity is not None else None,
                would_be=self._would_be,
                failure="unavailable" if self.status == BrokerError.status else "bad request",
                problem=self.problem,
                refused_token=refused,
            )
        )

    def _would_differ(self, decision: Decision | None) -> bool:
        return self._would_be is not None and decision is not None and self._would_be.outcome != decision.outcome.value

    def _fields(self) -> dict[str, object]:
        check, fields = self.check, _asked(self.incoming, self._trusted, self.status)
        if check is not None:
            fields |= _decided(check.decision)
            fields["user_id"] = check.identity.user_id if check.identity else ""
            if check.refused_token:
                fields["refused_token"] = check.refused_token
            fields["decision_ms"] = round(self._seconds * 1000, 3)
            if check.identity is not None and (sources := self._authorize.sources_of(check.identity)) is not None:
                fields["data_version"] = sources.version
        if self.result is not None:
            fields |= {"bytes_sent": self.result.bytes_sent, "ending": self.result.ending.value}
            if self.result.bytes_received is not None:
                fields["bytes_received"] = self.result.bytes_received
        if self.problem:
            fields["problem"] = self.problem
        return fields


class OwnStory:
    """A request that no route was asked about: a page of ours, an unknown host, one that can't be read.

    Error pages show the request id and ask people to pass it on: whoever gets it finds this line.
    """

    __slots__ = ("_incoming", "_send", "_status", "_trusted")

    def __init__(self, incoming: Incoming, send: Send, trusted: TrustedPeers):
        self._incoming = incoming
        self._send = send
        self._trusted = trusted
        self._status: int | None = None

    async def send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
        await self._send(message)

    def tell(self) -> None:
        status = CLIENT_LEFT if self._status is None else self._status
        level = logging.WARNING if status >= 500 else logging.INFO
        if not is_access_logged(level):
            return
        fields = _asked(self._incoming, self._trusted, status)
        if self._incoming.told:
            fields["reason"] = self._incoming.told
        log_access(level, fields)


def _asked(incoming: Incoming, trusted: TrustedPeers, status: int | None) -> dict[str, object]:
    request = incoming.request
    return {
        "request_id": incoming.request_id,
        "client": client_address(incoming, trusted),
        "method": request.method,
        "host": request.host_port,
        "path": request.path,
        "status": status,
        "duration_ms": round((time.monotonic() - incoming.started) * 1000, 2),
    }


def _decided(decision: Decision) -> dict[str, object]:
    return {
        "route": decision.route.id if decision.route else "",
        "outcome": decision.outcome.value,
        "reason": decision.trace[-1].reason.value if decision.trace else "",
    }
