import pytest

from foundation.connection_errors import ConnectFailure
from proxy.envoy.proxied.response_details import connection_fault, is_malformed, is_response_timeout

TLS = "upstream_reset_before_response_started{remote_connection_failure|TLS_error:|268435581:SSL_routines:OPENSSL_internal:"


@pytest.mark.parametrize(
    ("details", "fault"),
    [
        (
            "upstream_reset_before_response_started{remote_connection_failure|delayed_connect_error:_Connection_refused}",
            ConnectFailure.REFUSED,
        ),
        (
            TLS + "CERTIFICATE_VERIFY_FAILED:verify_cert_failed:_SAN_matcher,_certificate_SANs_are_[x]:TLS_error_end}",
            ConnectFailure.HOSTNAME_MISMATCH,
        ),
        (TLS + "CERTIFICATE_VERIFY_FAILED:..._at_depth_0:_certificate_has_expired:TLS_error_end}", ConnectFailure.EXPIRED),
        (TLS + "CERTIFICATE_VERIFY_FAILED:..._at_depth_1:_self_signed_certificate_in_chain:TLS_error_end}", ConnectFailure.UNTRUSTED),
        (TLS + "WRONG_VERSION_NUMBER:TLS_error_end}", ConnectFailure.NO_TLS),
        (TLS + "TLSV1_ALERT_PROTOCOL_VERSION:TLS_error_end}", ConnectFailure.HANDSHAKE_FAILED),
        ("no_healthy_upstream", ConnectFailure.UNRESOLVED),
        ("upstream_reset_before_response_started{connection_timeout}", ConnectFailure.TIMED_OUT),
        ("upstream_reset_before_response_started{connection_termination}", ConnectFailure.CONNECTION_RESET),
        ("what_nobody_knows", ConnectFailure.UNKNOWN),
    ],
)
def test_response_details_map_to_faults(details: str, fault: ConnectFailure) -> None:
    assert connection_fault(details) is fault


def test_timeout_and_protocol_error_differ() -> None:
    assert is_response_timeout("response_timeout")
    assert is_malformed("upstream_reset_before_response_started{protocol_error}")
    assert not is_response_timeout("upstream_reset_before_response_started{connection_timeout}")
