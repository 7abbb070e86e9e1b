import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.rewriting.reserved_headers import fold, is_identity_header, is_reserved_header
from tests.support.internal_headers import INTERNAL


def without_separators(name):
    return bytes(byte for byte in name.lower() if chr(byte).isalnum() and byte < 0x80)


@given(st.binary(min_size=1, max_size=12), st.sampled_from(INTERNAL))
def test_name_that_folds_to_an_internal_name_is_reserved(noise, name):
    separators = bytes(byte for byte in noise if not (chr(byte).isalnum() and byte < 0x80))[:1] or b"-"
    assert is_reserved_header(fold(name.encode().replace(b"-", separators)))


@pytest.mark.parametrize("name", [b"X-Gate-Claim-Email", b"x_gate_jwt_assertion", b"X.Gate--Claim", b"XGateClaimRole", b"Impersonate-User"])
def test_identity_header_is_detected_in_every_spelling(name):
    assert is_identity_header(fold(name))


@pytest.mark.parametrize(
    "name", [b"X-Forwarded-For", b"X-Original-URL", b"X-Request-Id", b"X-Gateway", b"Cookie", b"X-Envoy-Attempt-Count"]
)
def test_headers_of_front_proxies_are_no_identity(name):
    assert not is_identity_header(fold(name))
