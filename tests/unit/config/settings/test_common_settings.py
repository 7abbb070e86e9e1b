"""The settings of all parts: defaults of the specification, and what they refuse."""

import base64

import pytest

from tests.unit.config.conftest import Load, Problems


def test_the_proxy_log_level_follows_the_log_level(load: Load) -> None:
    assert load(log_level="warn").proxy_log_level == "warn"
    assert load(log_level="warn", proxy_log_level="debug").proxy_log_level == "debug"


def test_a_cookie_prefix_must_be_true(load: Load, problems: Problems) -> None:
    assert load(cookie_name="__Host-gate").cookie_name == "__Host-gate"
    for prefix in ("__Host-", "__Secure-", "__host-"):
        assert "cookie_secure" in problems(cookie_name=f"{prefix}gate", cookie_secure=False)["cookie_name"]
    assert "__Host-" in problems(cookie_name="__Host-gate", cookie_domain="example.com")["cookie_name"]
    assert load(cookie_name="__Secure-gate", cookie_domain="example.com").cookie_domain == "example.com"


def test_a_cookie_domain_has_one_form(load: Load) -> None:
    assert load(cookie_domain=".Example.com").cookie_domain == "example.com"


def test_a_certificates_entry_needs_both_halves(problems: Problems) -> None:
    assert problems(certificates=[{"cert": "missing.pem"}])["certificates[0].key"] == "is required"


@pytest.mark.parametrize("secret", ["cookie_secret", "shared_secret"])
def test_a_secret_may_be_a_list_of_keys(load: Load, problems: Problems, secret: str) -> None:
    one, two = (base64.b64encode(bytes([n]) * 32).decode() for n in (1, 2))
    for written in ([one, two], f"{one},{two}", f"{one}, {two}"):
        assert getattr(load(**{secret: written}), secret) == (b"\1" * 32, b"\2" * 32)
    assert getattr(load(**{secret: one}), secret) == (b"\1" * 32,)
    for written, message in (
        ([one, one], "has a duplicate key"),
        ([one, "c2hvcnQ="], "exactly 32 bytes, not 5"),
    ):
        assert message in problems(**{secret: written})[secret]
