"""`to` in all its forms."""

from typing import Any

import pytest

from config.routes.upstreams.upstream_urls import WeightedUrl, upstream_urls
from foundation.values import Url

A, B = Url("http", "a", 8000), Url("http", "b", 8000)


@pytest.mark.parametrize(
    "written", ["http://upstream", ["http://upstream"], "https://upstream:8443/base/", "http://my_app", "http://[::1]:80/a,b", " http://a "]
)
def test_to_is_one_url(written: Any) -> None:
    (upstream,) = upstream_urls(written)
    assert upstream.weight == 1


@pytest.mark.parametrize(
    "written",
    [
        ["http://a:8000", "http://b:8000"],
        ["http://a:8000,1", "http://b:8000,1"],
        [["http://a:8000"], ["http://b:8000"]],
    ],
)
def test_to_is_several_urls_in_order(written: Any) -> None:
    assert upstream_urls(written) == (WeightedUrl(A), WeightedUrl(B))


def test_each_url_may_have_a_weight() -> None:
    assert upstream_urls(["http://a:8000,3", "http://b:8000, 1"]) == (WeightedUrl(A, 3), WeightedUrl(B, 1))
    assert upstream_urls("http://a:8000,10") == (WeightedUrl(A, 10),)
    assert [str(upstream) for upstream in upstream_urls(["http://a:8000,3", "http://b:8000,1"])] == ["http://a:8000,3", "http://b:8000"]


def test_a_comma_in_a_path_is_no_weight() -> None:
    assert upstream_urls("http://a:8000/x,y") == (WeightedUrl(Url("http", "a", 8000, "/x,y")),)


def test_tcp_has_a_port() -> None:
    assert upstream_urls(["tcp://a:22,2", "tcp://b:22,1"])[0] == WeightedUrl(Url("tcp", "a", 22), 2)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ([], "list of URLs"),
        ({"url": "http://a"}, "must be text"),
        ([[], []], "list of URLs"),
        (5, "must be text"),
        ([None], "must be text"),
        (["http://a,2", "http://b"], "must have a weight"),
        ("http://a,0", "whole number from 1"),
        ("http://a,-1", "whole number from 1"),
        ("http://a,1.5", "whole number from 1"),
        ("http://a,99999999999", "whole number from 1"),
        (["http://a,4294967295", "http://b,1"], "exceeds 4294967295"),
        ("http://a,x", "letters, digits"),
        ("http://a,http://b", "malformed"),
        (["http://a/x", "http://b/y"], "same path"),
        ("ftp://a", "http or https"),
        ("http://a/?x", "query"),
        ("//a", "scheme"),
        ("tcp://a", "tcp://host:port"),
        ("tcp://a:22/x", "tcp://host:port"),
        ("http://user:secret@a", "user name or password"),
    ],
)
def test_invalid_upstreams(written: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        upstream_urls(written)
    assert "secret" not in str(error.value)
