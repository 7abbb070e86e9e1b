"""Error messages of upstreams, for the log record of a request and, while they last, for the admin."""

import re

from foundation.connection_errors import ConnectFailure, classify_failure
from foundation.errors import FileDescriptorsExhausted, UpstreamError, UpstreamTimeout
from foundation.system.fd_limit import UPSTREAMS, report_exhaustion

MALFORMED = "sent an invalid HTTP response"

# Messages of aiohttp and llhttp about a malformed response, without the response bytes that follow: these must not be logged.
_PARSER_REASON = re.compile(
    r"(?:Bad status line:\n  )?(?P<llhttp>[A-Z][A-Za-z ',/-]{1,60}):\n\n  b['\"]"
    r"|(?P<aiohttp>Invalid HTTP header|Too many headers received|Got more than \d{1,9} bytes when reading)(?::|$)"
)

UpstreamEndpoint = tuple[str, int | None]  # host and port as configured, so there are as many as upstreams


def bad_status(status: int, *, is_upgrade: bool) -> str:
    """Return why a response status is invalid; "" if it is valid.

    Statuses are from 100 to 599 (RFC 9110 15); a parser that took `000` for an interim response would wait forever. A 101 is valid only
    for an upgrade request.
    """
    if not 100 <= status <= 599:
        return f"returned the invalid status {status:03}"
    return "switched protocols without an upgrade request" if status == 101 and not is_upgrade else ""


def malformed(error: BaseException) -> str:
    """Return a message about a malformed response that contains none of its bytes."""
    match = _PARSER_REASON.match(str(getattr(error, "message", "")))
    return f"{MALFORMED}: {match['llhttp'] or match['aiohttp']}" if match else MALFORMED


class UpstreamErrors:
    """Last error of each upstream, removed once it responds."""

    def __init__(self) -> None:
        self._last: dict[UpstreamEndpoint, str] = {}
        self.has_any = False

    def __repr__(self) -> str:
        return f"<UpstreamErrors of {len(self._last)} upstreams>"

    def record_connect_error(self, endpoint: UpstreamEndpoint, error: BaseException) -> UpstreamError:
        """Record and return the error of a failed connection."""
        return self._record(endpoint, classify_failure(error), str(classify_failure(error)))

    def record_response_error(
        self, endpoint: UpstreamEndpoint, error: BaseException, kind: type[UpstreamError] = UpstreamError
    ) -> UpstreamError:
        """Record and return the error of a connection without a valid response."""
        failure = classify_failure(error)
        return self._record(endpoint, failure, malformed(error) if failure is ConnectFailure.UNKNOWN else str(failure), kind)

    def record_protocol_error(self, endpoint: UpstreamEndpoint, message: str) -> UpstreamError:
        return self._record(endpoint, ConnectFailure.UNKNOWN, message)

    def record_failure(self, endpoint: UpstreamEndpoint, failure: ConnectFailure) -> UpstreamError:
        """Record and return a failure that another component detected."""
        return self._record(endpoint, failure, str(failure))

    def record_timeout(self, endpoint: UpstreamEndpoint) -> UpstreamError:
        return self._record(endpoint, ConnectFailure.TIMED_OUT, "timed out", UpstreamTimeout)

    def record_success(self, endpoint: UpstreamEndpoint) -> None:
        self._last.pop(endpoint, None)
        self.has_any = bool(self._last)

    def clear(self) -> None:
        """Remove all errors, because the configuration may have other upstreams."""
        self._last.clear()
        self.has_any = False

    def last_error(self, endpoint: UpstreamEndpoint) -> str:
        return self._last.get(endpoint, "")

    def _record(
        self, endpoint: UpstreamEndpoint, failure: ConnectFailure, message: str, kind: type[UpstreamError] = UpstreamError
    ) -> UpstreamError:
        if failure is ConnectFailure.FD_EXHAUSTED:  # not the upstream's fault
            report_exhaustion(UPSTREAMS)
            return FileDescriptorsExhausted(f"upstream {_format(endpoint)} {message}")
        self._last[endpoint] = message
        self.has_any = True
        return kind(f"upstream {_format(endpoint)} {message}")


def _format(endpoint: UpstreamEndpoint) -> str:
    host, port = endpoint
    return host if port is None else f"{host}:{port}"
