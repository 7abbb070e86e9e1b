"""Access log of what Envoy carried by grants: Envoy tells the end of each request, and gate knows whose it was."""

import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from foundation.telemetry.http_calls import CLIENT_LEFT
from foundation.telemetry.logs import is_access_logged, log_access
from foundation.telemetry.tracing.spans import Facts
from foundation.telemetry.tracing.tracer import in_force
from proxy.envoy.resources.bootstrap import Json
from proxy.envoy.resources.judge_filter import OF_GRANTS as LINE_OF_GRANTS
from proxy.envoy.resources.judge_filter import file_log
from proxy.forwarding.http import Ending
from proxy.observe.access_log import decided, person_fields
from proxy.observe.spans import decided as decided_in_span
from proxy.observe.spans import place_of, tell_remembered
from proxy.planes.embedded import count_ending
from proxy.service import ProxyService
from proxy.upstreams.route_statistics import RouteStatistics
from proxy.verdict import JudgedRequest

log = structlog.get_logger(__name__)

# A request's id is that of its grant, and a count of worker and request: so much of it is the grant's.
ID = 16
# What a request's end is told in: none of it can hold a blank but the path, which is plain.
_FORMAT = "%REQ(X-REQUEST-ID)% %REQ(:METHOD)% %RESPONSE_CODE% %DURATION% %BYTES_SENT% %RESPONSE_FLAGS% %REQ(:PATH)%\n"
_CARRIED = "^[0-9a-f]{18}0{6}[0-9a-f]{8}$"
_FIELDS = 7
_ENDINGS = {"UT": Ending.TIMED_OUT, "SI": Ending.SILENT, "UC": Ending.BROKE_OFF, "UPE": Ending.BROKE_OFF, "LR": Ending.BROKE_OFF}

# Filter for requests that were carried by a grant: of others none has such an id, but one in sixteen million.
OF_GRANTS: Json = {"header_filter": {"header": {"name": "x-request-id", "string_match": {"safe_regex": {"regex": _CARRIED}}}}}


def access_log(path: str) -> Json:
    """Access log of requests with the id of a grant."""
    return file_log(path, f"{LINE_OF_GRANTS}{_FORMAT}", OF_GRANTS)


@dataclass(frozen=True, slots=True)
class GrantedRequest:
    """Request for which a grant was given, as far as those like it are told of by it."""

    host: bytes
    fields: tuple[tuple[str, object], ...]
    statistics: RouteStatistics | None
    place: str = ""  # what spans are named by: host and path of its route
    facts: Facts = field(default_factory=dict)  # for spans

    @classmethod
    def of(cls, judged: JudgedRequest, client: str, statistics: RouteStatistics | None) -> "GrantedRequest":
        identity, decision = judged.check.identity, judged.check.decision
        who = {"client": client, "host": judged.incoming.request.host_port, **person_fields(identity)}
        place = place_of(decision.route) if decision.route is not None else ""
        facts = {"gate.remembered": True, "server.address": judged.incoming.request.host, **decided_in_span(decision)}
        return cls(judged.incoming.headers.get(b"host", b""), (*who.items(), *decided(decision).items()), statistics, place, facts)


class GrantAccessLog:
    """Access log's reader.  At most `most` grants are known; of what others carried only the request is told."""

    def __init__(self, service: Callable[[], ProxyService], most: int):
        self._service = service
        self._most = most
        self._known: OrderedDict[str, GrantedRequest] = OrderedDict()

    def __repr__(self) -> str:
        return f"<GrantAccessLog of {len(self._known)} grants>"

    def know(self, id: str, request: GrantedRequest) -> None:
        self._known[id] = request
        if len(self._known) > self._most:
            self._known.popitem(last=False)

    def tell(self, line: str) -> None:
        """Tell of one request: its line in the log, the metrics of requests, and those of its route."""
        parts = line.split(" ", _FIELDS - 1)
        if len(parts) != _FIELDS or not "".join(parts[2:5]).isdecimal():
            log.warning("envoy has told of a request in other words", line=line[:200])
            return
        id, method, code, milliseconds, sent, flags, target = parts
        known, status, seconds = self._known.get(id[:ID]), int(code) or CLIENT_LEFT, int(milliseconds) / 1000
        ending = next((_ENDINGS[flag] for flag in flags.split(",") if flag in _ENDINGS), None)
        if is_access_logged(logging.INFO):
            fields: dict[str, object] = {"request_id": id, "method": method, "path": target.partition("?")[0], "status": status}
            fields |= {
                "duration_ms": float(milliseconds),
                **dict(known.fields if known else ()),
                "bytes_sent": int(sent),
                "ending": (ending or Ending.COMPLETE).value,
                "remembered": True,
            }
            if ending is not None:
                fields["problem"] = ending.value
            log_access(logging.INFO if ending is None else logging.WARNING, fields)
        if known is not None:
            if (tracing := in_force()) is not None:
                asked: Facts = {"http.request.method": method, "gate.request_id": id, "url.path": target.partition("?")[0]}
                is_trouble = ending is not None
                tell_remembered(tracing, f"{method} {known.place}", seconds, {**asked, **known.facts}, status, is_trouble=is_trouble)
            self._service().answered(known.host, method.encode(), status, seconds, None, int(sent))
            if (statistics := known.statistics) is not None:
                statistics.begin()
                statistics.end(status, seconds)
                if ending is not None:
                    count_ending(statistics, ending)
