"""The settings of all parts: defaults of the specification, and what they refuse."""

import base64
from datetime import timedelta
from typing import Any

import pytest

from foundation.values import HostPort
from tests.unit.config.conftest import Load, Problems


def test_defaults_are_those_of_the_specification(load: Load) -> None:
    options = load(address=None)
    assert options.address == HostPort("", 443)
    assert (options.services, options.log_level, options.proxy_log_level, options.gate_debug) == ("all", "info", "info", False)
    assert (options.cookie_name, options.cookie_domain, options.cookie_secure, options.cookie_http_only) == ("_gate", None, True, True)
    assert options.cookie_expire == timedelta(hours=14)
    assert (options.timeout_read, options.timeout_write, options.timeout_idle) == (
        timedelta(seconds=30),
        timedelta(0),
        timedelta(minutes=5),
    )


def test_the_proxy_log_level_follows_the_log_level(load: Load) -> None:
    assert load(log_level="warn").proxy_log_level == "warn"
    assert load(log_level="warn", proxy_log_level="debug").proxy_log_level == "debug"


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("services", "cache", "must be one of all, authenticate, authorize, databroker, proxy"),
        ("log_level", "trace", "must be one of debug, info, warn, error"),
        ("cookie_name", "a b", "RFC 6265"),
        ("cookie_name", "a;b", "RFC 6265"),
        ("cookie_name", "", "must not be empty"),
        ("cookie_domain", "exam ple.com", "letters, digits"),
        ("cookie_expire", 0, "longer than 0"),
        ("cookie_secret", "c2hvcnQ=", "exactly 32 bytes, not 5"),
        ("shared_secret", "c2hvcnQ=", "exactly 32 bytes, not 5"),
        ("timeout_idle", "5", "must be a duration"),
        ("gate_debug", "perhaps", "true or false"),
    ],
)
def test_a_wrong_value_is_refused(problems: Problems, setting: str, value: Any, message: str) -> None:
    found = problems(**{setting: value})
    assert list(found) == [setting]
    assert message in found[setting]


@pytest.mark.parametrize("secret", ["cookie_secret", "shared_secret"])
def test_a_missing_secret_is_refused_with_the_command_that_makes_one(problems: Problems, secret: str) -> None:
    found = problems(**{secret: None})
    assert list(found) == [secret]
    assert "`head -c32 /dev/urandom | base64`" in found[secret]


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
        ([], "must have at least"),
        ([one, one], "has a duplicate key"),
        ([one, "c2hvcnQ="], "exactly 32 bytes, not 5"),
    ):
        assert message in problems(**{secret: written})[secret]


def test_a_time_zone_is_known_by_its_name(load: Load, problems: Problems) -> None:
    assert load(time_zone="Europe/Berlin").time_zone == "Europe/Berlin"
    for wrong in ("Berlin", "CEST+2", "../etc/passwd", "/etc/localtime", "", "Europe", "x" * 300, "a\0b"):
        assert "time_zone" in problems(time_zone=wrong), wrong
