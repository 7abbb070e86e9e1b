"""The settings of the data plane."""

from datetime import timedelta

from tests.unit.gateproject.config.conftest import Load, Problems


def test_defaults_are_those_of_the_specification(load: Load) -> None:
    options = load()
    assert options.headers == {
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "SAMEORIGIN",
        "X-XSS-Protection": "1; mode=block",
        "Strict-Transport-Security": "max-age=31536000; includeSubDomains; preload",
    }
    assert options.default_upstream_timeout == timedelta(seconds=30)
    assert (options.jwt_claims_headers, options.skip_xff_append) == ((), False)


def test_no_peer_is_trusted_by_default(load: Load) -> None:
    assert load().trusted_proxies == ()


def test_headers_from_the_environment_have_text_forms(load: Load) -> None:
    for written in ("X-A:b,X-C:d", '{"X-A": "b", "X-C": "d"}'):
        assert load({"HEADERS": written}, headers={"X-File": "y"}).headers == {"X-A": "b", "X-C": "d"}
    assert load({"HEADERS": "disable:true"}).headers == {}


def test_wrong_values_are_refused(problems: Problems) -> None:
    found = problems(
        trusted_proxies=["10.0.0.1/8"], headers={"X-A": "b\r\nX-B: c"}, jwt_claims_headers=["a b"], default_upstream_timeout="x"
    )
    assert set(found) == {"trusted_proxies", "headers", "jwt_claims_headers", "default_upstream_timeout"}
