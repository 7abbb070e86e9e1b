from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from authorize.policy.policy_request import PolicyRequest
from config.routes.route import Route
from proxy.responses.route_redirects import redirect_to


def location(redirect, path="/x", *, query=b"", port=None, **keys):
    route = Route.model_validate({"from": "https://app.example.com", "redirect": redirect, **keys})
    return redirect_to(route, PolicyRequest("GET", "app.example.com", port, path, query=query.decode("latin-1")))


@pytest.mark.parametrize(
    ("redirect", "request_keys", "expected"),
    [
        ({"host_redirect": "other.example.com"}, {}, "https://other.example.com/x"),
        ({"host_redirect": "other.example.com"}, {"query": b"a=%20&b"}, "https://other.example.com/x?a=%20&b"),
        ({"host_redirect": "other.example.com", "strip_query": True}, {"query": b"a=1"}, "https://other.example.com/x"),
        ({"https_redirect": True}, {}, "https://app.example.com/x"),
        ({"https_redirect": True}, {"port": 8080}, "https://app.example.com:8080/x"),
        ({"scheme_redirect": "http"}, {}, "http://app.example.com/x"),
        ({"scheme_redirect": "http"}, {"port": 443}, "http://app.example.com/x"),
        ({"port_redirect": 8443}, {}, "https://app.example.com:8443/x"),
        ({"port_redirect": 443}, {"port": 8443}, "https://app.example.com/x"),
        ({"path_redirect": "/new"}, {"query": b"a=1"}, "https://app.example.com/new?a=1"),
        ({"path_redirect": "/new?b=2", "strip_query": True}, {"query": b"a=1"}, "https://app.example.com/new?b=2"),
        ({"path_redirect": "/new?b=2"}, {"query": b"a=1"}, "https://app.example.com/new?b=2"),
        ({"prefix_rewrite": "/y"}, {"path": "/old/z", "prefix": "/old"}, "https://app.example.com/y/z"),
        ({"prefix_rewrite": "/y"}, {"path": "/old"} | {"regex": "/o.*"}, "https://app.example.com/y"),
        ({"path_redirect": "/new", "prefix_rewrite": "/y"}, {"path": "/old"}, "https://app.example.com/new"),
        ({"host_redirect": "[2001:db8::1]"}, {}, "https://[2001:db8::1]/x"),
    ],
)
def test_where_a_redirect_leads(redirect, request_keys, expected):
    assert location(redirect, **request_keys) == (301, expected)


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_the_response_code_is_the_http_status(code):
    assert location({"https_redirect": True, "response_code": code})[0] == code


def test_the_session_token_does_not_travel_on():
    assert location({"host_redirect": "other.example.com"}, query=b"gate_session=secret&a=1")[1] == "https://other.example.com/x?a=1"


@pytest.mark.parametrize("path", ["//evil.com", "//evil.com/x", "/%2F/evil.com", "/x@evil.com", "/old//evil.com", "/;//evil.com"])
@pytest.mark.parametrize("redirect", [{"strip_query": True}, {"prefix_rewrite": "/"}, {"scheme_redirect": "http"}, {"port_redirect": 8443}])
def test_no_path_becomes_a_host(redirect, path):
    keys = {"prefix": "/old"} if path.startswith("/old") else {}
    assert urlsplit(location(redirect, path, **keys)[1]).hostname == "app.example.com"


@given(st.text(alphabet="/\\@:?#%0dar\r\n\t\0é ", max_size=20), st.binary(max_size=20))
def test_no_path_or_query_adds_a_line_or_changes_the_host(path, query):
    _, where = location({"scheme_redirect": "http"}, "/" + path, query=query)
    assert where.startswith("http://app.example.com/")
    assert where.isascii()
    assert where.isprintable()
    assert not set(where) & set(' "<>\\')
