"""Upstream errors behind Envoy: `response.code_details` in, the same words out that our own connections have."""

from foundation.connection_errors import ConnectFailure

# By what Envoy (1.40) writes, the more exact first; blanks are underscores there.
_MARKS = (
    ("Connection_refused", ConnectFailure.REFUSED),
    ("Too_many_open_files", ConnectFailure.FD_EXHAUSTED),
    ("SAN_matcher", ConnectFailure.HOSTNAME_MISMATCH),
    ("certificate_has_expired", ConnectFailure.EXPIRED),
    ("certificate_is_not_yet_valid", ConnectFailure.NOT_YET_VALID),
    ("CERTIFICATE_VERIFY_FAILED", ConnectFailure.UNTRUSTED),
    ("CERTIFICATE_REQUIRED", ConnectFailure.CLIENT_CERT_REQUIRED),
    ("ALERT_BAD_CERTIFICATE", ConnectFailure.CLIENT_CERT_REQUIRED),
    ("ALERT_UNKNOWN_CA", ConnectFailure.CLIENT_CERT_REQUIRED),
    ("ALERT_CERTIFICATE_", ConnectFailure.CLIENT_CERT_REQUIRED),
    ("WRONG_VERSION_NUMBER", ConnectFailure.NO_TLS),
    ("HTTP_REQUEST", ConnectFailure.NO_TLS),
    ("TLS_error", ConnectFailure.HANDSHAKE_FAILED),
    ("nreachable", ConnectFailure.UNREACHABLE),
    ("No_route_to_host", ConnectFailure.UNREACHABLE),
    ("no_healthy_upstream", ConnectFailure.UNRESOLVED),  # no cluster of ours has health checks of Envoy's: it has no address to ask
    ("connection_timeout", ConnectFailure.TIMED_OUT),
    ("connection_termination", ConnectFailure.CONNECTION_RESET),
    ("remote_reset", ConnectFailure.CONNECTION_RESET),
    ("Connection_reset", ConnectFailure.CONNECTION_RESET),
)
_LATE = ("response_timeout", "upstream_per_try_timeout", "request_overall_timeout", "stream_idle_timeout")


def trouble_in(details: str) -> ConnectFailure:
    return next((trouble for mark, trouble in _MARKS if mark in details), ConnectFailure.UNKNOWN)


def is_late(details: str) -> bool:
    """Timeout of the response: the request was sent, and no answer came in time."""
    return details.startswith(_LATE)


def is_malformed(details: str) -> bool:
    return "protocol_error" in details


def bad_status_in(details: str) -> int | None:
    """Status of an answer that can't be passed on, as our script tells it (response_filter.lua)."""
    told, _, status = details.partition(" ")
    return int(status) if told == "status" and status.isdecimal() else None
