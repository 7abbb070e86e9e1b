"""What went wrong between Envoy and an upstream?  `response.code_details` in, the same words out that our own connections have."""

from foundation.connection_errors import Trouble

# By what Envoy (1.35) writes, the more exact first; blanks are underscores there.
_MARKS = (
    ("Connection_refused", Trouble.REFUSED),
    ("Too_many_open_files", Trouble.NO_DESCRIPTORS),
    ("SAN_matcher", Trouble.OTHER_NAME),
    ("certificate_has_expired", Trouble.EXPIRED),
    ("certificate_is_not_yet_valid", Trouble.NOT_YET_VALID),
    ("CERTIFICATE_VERIFY_FAILED", Trouble.UNTRUSTED),
    ("CERTIFICATE_REQUIRED", Trouble.WANTS_CERTIFICATE),
    ("ALERT_BAD_CERTIFICATE", Trouble.WANTS_CERTIFICATE),
    ("ALERT_UNKNOWN_CA", Trouble.WANTS_CERTIFICATE),
    ("ALERT_CERTIFICATE_", Trouble.WANTS_CERTIFICATE),
    ("WRONG_VERSION_NUMBER", Trouble.NO_TLS),
    ("HTTP_REQUEST", Trouble.NO_TLS),
    ("TLS_error", Trouble.NO_HANDSHAKE),
    ("nreachable", Trouble.UNREACHABLE),
    ("No_route_to_host", Trouble.UNREACHABLE),
    ("no_healthy_upstream", Trouble.UNRESOLVED),  # no cluster of ours has health checks of Envoy's: it has no address to ask
    ("connection_timeout", Trouble.TIMED_OUT),
    ("connection_termination", Trouble.BROKE_OFF),
    ("remote_reset", Trouble.BROKE_OFF),
    ("Connection_reset", Trouble.BROKE_OFF),
)
_LATE = ("response_timeout", "upstream_per_try_timeout", "request_overall_timeout", "stream_idle_timeout")


def trouble_in(details: str) -> Trouble:
    return next((trouble for mark, trouble in _MARKS if mark in details), Trouble.UNKNOWN)


def is_late(details: str) -> bool:
    """The request was sent, and no answer came in time."""
    return details.startswith(_LATE)


def is_malformed(details: str) -> bool:
    return "protocol_error" in details
