"""Upstream errors in words: for the log line of a request, and for the admin while they last."""

import re

from foundation.connection_errors import ConnectFailure, classify_failure
from foundation.errors import FileDescriptorsExhausted, UpstreamError, UpstreamTimeout
from foundation.system.fd_limit import UPSTREAMS, report_exhaustion

MALFORMED = "sent an invalid HTTP response"

# What aiohttp and llhttp call a malformed response.  Each sentence is theirs alone; bytes of the response follow it, and stay out of logs.
_PARSER_REASON = re.compile(
    r"(?:Bad status line:\n  )?(?P<llhttp>[A-Z][A-Za-z ',/-]{1,60}):\n\n  b['\"]"
    r"|(?P<aiohttp>Invalid HTTP header|Too many headers received|Got more than \d{1,9} bytes when reading)(?::|$)"
)

UpstreamEndpoint = tuple[str, int | None]  # host and port, as configured: so there are as many as upstreams


def bad_status(status: int, *, is_upgrade: bool) -> str:
    """Fault of an answer's status, "" for none.

    RFC 9110 15: three digits from 100 to 599.  Anything else, and a change of protocols that nobody asked for, is no answer: whoever
    reads `000` as interim waits for ever.
    """
    if not 100 <= status <= 599:
        return f"returned the invalid status {status:03}"
    return "switched protocols without an upgrade request" if status == 101 and not is_upgrade else ""


def malformed(error: BaseException) -> str:
    """Return how a response is malformed, without any of its bytes."""
    match = _PARSER_REASON.match(str(getattr(error, "message", "")))
    return f"{MALFORMED}: {match['llhttp'] or match['aiohttp']}" if match else MALFORMED


class UpstreamErrors:
    """Last error of each upstream; nothing where its last request was answered."""

    def __init__(self) -> None:
        self._last: dict[UpstreamEndpoint, str] = {}
        self.has_any = False

    def __repr__(self) -> str:
        return f"<UpstreamErrors of {len(self._last)} upstreams>"

    def connect_error(self, endpoint: UpstreamEndpoint, error: BaseException) -> UpstreamError:
        """Error to raise where there is no connection."""
        return self._record(endpoint, classify_failure(error), str(classify_failure(error)))

    def response_error(self, endpoint: UpstreamEndpoint, error: BaseException, kind: type[UpstreamError] = UpstreamError) -> UpstreamError:
        """Error to raise where a connection brings no answer."""
        failure = classify_failure(error)
        return self._record(endpoint, failure, malformed(error) if failure is ConnectFailure.UNKNOWN else str(failure), kind)

    def protocol_error(self, endpoint: UpstreamEndpoint, message: str) -> UpstreamError:
        return self._record(endpoint, ConnectFailure.UNKNOWN, message)

    def record(self, endpoint: UpstreamEndpoint, failure: ConnectFailure) -> UpstreamError:
        """Note an error as somebody else saw it."""
        return self._record(endpoint, failure, str(failure))

    def timeout(self, endpoint: UpstreamEndpoint) -> UpstreamError:
        return self._record(endpoint, ConnectFailure.TIMED_OUT, "timed out", UpstreamTimeout)

    def record_success(self, endpoint: UpstreamEndpoint) -> None:
        self._last.pop(endpoint, None)
        self.has_any = bool(self._last)

    def clear(self) -> None:
        """Forget all: the configuration has changed, and with it perhaps the upstreams."""
        self._last.clear()
        self.has_any = False

    def last_error(self, endpoint: UpstreamEndpoint) -> str:
        return self._last.get(endpoint, "")

    def _record(
        self, endpoint: UpstreamEndpoint, failure: ConnectFailure, message: str, kind: type[UpstreamError] = UpstreamError
    ) -> UpstreamError:
        if failure is ConnectFailure.FD_EXHAUSTED:  # no fault of the upstream's
            report_exhaustion(UPSTREAMS)
            return FileDescriptorsExhausted(f"upstream {_format(endpoint)} {message}")
        self._last[endpoint] = message
        self.has_any = True
        return kind(f"upstream {_format(endpoint)} {message}")


def _format(endpoint: UpstreamEndpoint) -> str:
    host, port = endpoint
    return host if port is None else f"{host}:{port}"
