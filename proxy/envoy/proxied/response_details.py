"""Mapping of Envoy's response code details to the upstream errors of gate's own connections."""

from foundation.connection_errors import ConnectFailure

# Substrings of Envoy's (1.40) details, more specific ones first; blanks are underscores.
_DETAILS = (
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
    ("no_healthy_upstream", ConnectFailure.UNRESOLVED),  # clusters have no health checks in Envoy, so the name did not resolve
    ("connection_timeout", ConnectFailure.TIMED_OUT),
    ("connection_termination", ConnectFailure.CONNECTION_RESET),
    ("remote_reset", ConnectFailure.CONNECTION_RESET),
    ("Connection_reset", ConnectFailure.CONNECTION_RESET),
)
_TIMEOUTS = ("response_timeout", "upstream_per_try_timeout", "request_overall_timeout", "stream_idle_timeout")


def connection_fault(details: str) -> ConnectFailure:
    return next((fault for text, fault in _DETAILS if text in details), ConnectFailure.UNKNOWN)


def is_response_timeout(details: str) -> bool:
    """Return whether the request was sent and the response timed out."""
    return details.startswith(_TIMEOUTS)


def is_malformed(details: str) -> bool:
    return "protocol_error" in details


def invalid_status(details: str) -> int | None:
    """Return the invalid response status that the Lua script reports (response_filter.lua), or None."""
    prefix, _, status = details.partition(" ")
    return int(status) if prefix == "status" and status.isdecimal() else None
