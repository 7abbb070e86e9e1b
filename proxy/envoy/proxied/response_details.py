"""Upstream errors behind Envoy: `response.code_details` in, the same words out that our own connections have."""

from foundation.connection_errors import ConnectionFault

# By what Envoy (1.40) writes, the more exact first; blanks are underscores there.
_MARKS = (
    ("Connection_refused", ConnectionFault.REFUSED),
    ("Too_many_open_files", ConnectionFault.NO_DESCRIPTORS),
    ("SAN_matcher", ConnectionFault.OTHER_NAME),
    ("certificate_has_expired", ConnectionFault.EXPIRED),
    ("certificate_is_not_yet_valid", ConnectionFault.NOT_YET_VALID),
    ("CERTIFICATE_VERIFY_FAILED", ConnectionFault.UNTRUSTED),
    ("CERTIFICATE_REQUIRED", ConnectionFault.WANTS_CERTIFICATE),
    ("ALERT_BAD_CERTIFICATE", ConnectionFault.WANTS_CERTIFICATE),
    ("ALERT_UNKNOWN_CA", ConnectionFault.WANTS_CERTIFICATE),
    ("ALERT_CERTIFICATE_", ConnectionFault.WANTS_CERTIFICATE),
    ("WRONG_VERSION_NUMBER", ConnectionFault.NO_TLS),
    ("HTTP_REQUEST", ConnectionFault.NO_TLS),
    ("TLS_error", ConnectionFault.NO_HANDSHAKE),
    ("nreachable", ConnectionFault.UNREACHABLE),
    ("No_route_to_host", ConnectionFault.UNREACHABLE),
    ("no_healthy_upstream", ConnectionFault.UNRESOLVED),  # no cluster of ours has health checks of Envoy's: it has no address to ask
    ("connection_timeout", ConnectionFault.TIMED_OUT),
    ("connection_termination", ConnectionFault.BROKE_OFF),
    ("remote_reset", ConnectionFault.BROKE_OFF),
    ("Connection_reset", ConnectionFault.BROKE_OFF),
)
_LATE = ("response_timeout", "upstream_per_try_timeout", "request_overall_timeout", "stream_idle_timeout")


def trouble_in(details: str) -> ConnectionFault:
    return next((trouble for mark, trouble in _MARKS if mark in details), ConnectionFault.UNKNOWN)


def is_late(details: str) -> bool:
    """Timeout of the response: the request was sent, and no answer came in time."""
    return details.startswith(_LATE)


def is_malformed(details: str) -> bool:
    return "protocol_error" in details


def bad_status_in(details: str) -> int | None:
    """Status of an answer that can't be passed on, as our script tells it (response_filter.lua)."""
    told, _, status = details.partition(" ")
    return int(status) if told == "status" and status.isdecimal() else None
