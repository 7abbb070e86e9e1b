"""Values of foreign files that are no address and no expression are none, and nothing is raised or printed."""

import pytest

from config.importing.foreign_values import compile_re2, split_url


@pytest.mark.parametrize("value", ["http://[", None, "//[x", 5])
def test_malformed_address_has_no_host(value: object) -> None:
    assert split_url(value).hostname is None


def test_an_address_has_its_parts() -> None:
    assert split_url("https://a.test:8443/x")[:3] == ("https", "a.test:8443", "/x")


def test_invalid_expression_is_none(capfd: pytest.CaptureFixture[str]) -> None:
    assert compile_re2("(") is None
    assert compile_re2("a+").search("xaa") is not None
    assert capfd.readouterr().err == ""
