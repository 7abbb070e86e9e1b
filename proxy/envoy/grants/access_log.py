"""Access log of what Envoy carried by grants: Envoy tells the end of each request, by a pipe, and gate knows whose it was."""

import asyncio
import logging
import os
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from foundation.telemetry.http_calls import CLIENT_LEFT
from foundation.telemetry.logs import is_access_logged, log_access
from proxy.envoy.bootstrap import TYPE, Json
from proxy.forwarding.http import Ending
from proxy.observe.access_log import decided
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
# As long may a line wait in Envoy.
FLUSH_ARGUMENTS = ("--file-flush-interval-msec", "100")
_LONGEST = 64 * 1024  # bytes of one line


# Filter for requests that were carried by a grant: of others none has such an id, but one in sixteen million.
OF_GRANTS: Json = {"header_filter": {"header": {"name": "x-request-id", "string_match": {"safe_regex": {"regex": _CARRIED}}}}}


def access_log(fd: int) -> Json:
    """Access log of requests with the id of a grant, to a descriptor that Envoy has inherited."""
    return {
        "name": "envoy.access_loggers.file",
        "filter": OF_GRANTS,
        "typed_config": {
            "@type": f"{TYPE}extensions.access_loggers.file.v3.FileAccessLog",
            "path": f"/proc/self/fd/{fd}",
            "log_format": {"text_format_source": {"inline_string": _FORMAT}},
        },
    }


@dataclass(frozen=True, slots=True)
class GrantedRequest:
    """Request for which a grant was given, as far as those like it are told of by it."""

    host: bytes
    fields: tuple[tuple[str, object], ...]
    statistics: RouteStatistics | None

    @classmethod
    def of(cls, judged: JudgedRequest, client: str, statistics: RouteStatistics | None) -> "GrantedRequest":
        identity = judged.check.identity
        who = {"client": client, "host": judged.incoming.request.host_port, "user_id": identity.user_id if identity else ""}
        return cls(judged.incoming.headers.get(b"host", b""), (*who.items(), *decided(judged.check.decision).items()), statistics)


class GrantAccessLog:
    """Access log's reader.  At most `most` grants are known; of what others carried only the request is told."""

    def __init__(self, service: Callable[[], ProxyService], most: int):
        self._service = service
        self._most = most
        self._known: OrderedDict[str, GrantedRequest] = OrderedDict()
        self._read, self.fd = os.pipe()
        self._task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<GrantAccessLog of {len(self._known)} grants>"

    def know(self, id: str, request: GrantedRequest) -> None:
        self._known[id] = request
        if len(self._known) > self._most:
            self._known.popitem(last=False)

    async def run(self) -> None:
        reader = asyncio.StreamReader(limit=_LONGEST)
        file = os.fdopen(os.dup(self._read), "rb")
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
        try:
            rest = b""
            while some := await reader.read(_LONGEST):
                *lines, rest = (rest + some).split(b"\n")
                for line in lines:
                    self.tell(line.decode("latin-1"))
                rest = rest[:_LONGEST]
        finally:
            transport.close()

    def close(self) -> None:
        os.close(self._read)
        os.close(self.fd)

    def tell(self, line: str) -> None:
        """Tell of one request: its line in the log, the metrics of requests, and those of its route."""
        parts = line.split(" ", _FIELDS - 1)
        if len(parts) != _FIELDS or not all(part.isdecimal() for part in parts[2:5]):
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
                "remembered": True,
            }
            if ending is not None:
                fields["problem"] = ending.value
            log_access(logging.INFO if ending is None else logging.WARNING, fields)
        if known is not None:
            self._service().answered(known.host, method.encode(), status, seconds, None, int(sent))
            if (statistics := known.statistics) is not None:
                statistics.begin()
                statistics.end(status, seconds)
                if ending is not None:
                    count_ending(statistics, ending)
