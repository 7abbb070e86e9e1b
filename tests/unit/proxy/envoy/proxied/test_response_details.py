import pytest

from foundation.connection_errors import ConnectionFault
from proxy.envoy.proxied.response_details import is_late, is_malformed, trouble_in

TLS = "upstream_reset_before_response_started{remote_connection_failure|TLS_error:|268435581:SSL_routines:OPENSSL_internal:"


@pytest.mark.parametrize(
    ("details", "trouble"),
    [
        (
            "upstream_reset_before_response_started{remote_connection_failure|delayed_connect_error:_Connection_refused}",
            ConnectionFault.REFUSED,
        ),
        (
            TLS + "CERTIFICATE_VERIFY_FAILED:verify_cert_failed:_SAN_matcher,_certificate_SANs_are_[x]:TLS_error_end}",
            ConnectionFault.OTHER_NAME,
        ),
        (TLS + "CERTIFICATE_VERIFY_FAILED:..._at_depth_0:_certificate_has_expired:TLS_error_end}", ConnectionFault.EXPIRED),
        (TLS + "CERTIFICATE_VERIFY_FAILED:..._at_depth_1:_self_signed_certificate_in_chain:TLS_error_end}", ConnectionFault.UNTRUSTED),
        (TLS + "WRONG_VERSION_NUMBER:TLS_error_end}", ConnectionFault.NO_TLS),
        (TLS + "TLSV1_ALERT_PROTOCOL_VERSION:TLS_error_end}", ConnectionFault.NO_HANDSHAKE),
        ("no_healthy_upstream", ConnectionFault.UNRESOLVED),
        ("upstream_reset_before_response_started{connection_timeout}", ConnectionFault.TIMED_OUT),
        ("upstream_reset_before_response_started{connection_termination}", ConnectionFault.BROKE_OFF),
        ("what_nobody_knows", ConnectionFault.UNKNOWN),
    ],
)
def test_what_envoy_says_is_told_in_our_words(details: str, trouble: ConnectionFault) -> None:
    assert trouble_in(details) is trouble


def test_who_is_late_and_who_speaks_no_http_is_told_apart() -> None:
    assert is_late("response_timeout")
    assert is_malformed("upstream_reset_before_response_started{protocol_error}")
    assert not is_late("upstream_reset_before_response_started{connection_timeout}")
