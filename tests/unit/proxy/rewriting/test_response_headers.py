import pytest

from foundation.errors import UpstreamError
from proxy.rewriting.response_headers import _NAMES, ResponseHeaderRules
from tests.support.options import make_options

ROUTE = {"from": "https://app.example.com", "to": "http://127.0.0.1:1", "allow_any_authenticated_user": True}


def values(headers, name):
    return [value for each, value in headers if each == name]


@pytest.fixture(scope="module")
def options_of(tmp_path_factory):
    return lambda **settings: make_options(tmp_path_factory.mktemp("options"), **settings)


@pytest.fixture(scope="module")
def options(options_of):
    return options_of()


def received(options, headers):
    return ResponseHeaderRules.build(options).filter(headers)


def test_drops_hop_by_hop_response_headers(options):
    headers = [
        (b"Connection", b"close, X-Hop"),
        (b"X-Hop", b"1"),
        (b"Keep-Alive", b"5"),
        (b"Alt-Svc", b'h3=":8443"'),
        (b"Transfer-Encoding", b"chunked"),
        (b"X-App", b"1"),
    ]
    names = [name for name, _ in received(options, headers)]
    assert names[0] == b"x-app"
    assert not {b"connection", b"x-hop", b"keep-alive", b"alt-svc", b"transfer-encoding"} & set(names)


def test_connection_preserves_content_length_and_close(options):
    headers = received(options, [(b"Connection", b"close, content-length"), (b"Close", b"1"), (b"Content-Length", b"5")])
    assert values(headers, b"content-length") == [b"5"]
    assert values(received(options, [(b"Connection", b"close"), (b"Close", b"1")]), b"close") == [b"1"]


def test_configured_headers_replace_upstream_headers(options):
    out = received(options, [(b"x-frame-options", b"ALLOWALL"), (b"X-Frame-Options", b"DENY")])
    assert values(out, b"x-frame-options") == [b"SAMEORIGIN"]
    assert values(out, b"x-content-type-options") == [b"nosniff"]


def test_disabled_headers_preserve_upstream_headers(options_of):
    assert received(options_of(headers={"disable": True}), [(b"X-Frame-Options", b"DENY")]) == [(b"x-frame-options", b"DENY")]


def test_set_cookies_survive_in_order_and_are_never_joined(options):
    cookies = [b"a=1; Path=/", b"b=2, c", b"a=3; Expires=Thu, 01 Jan 1970 00:00:00 GMT", b"my_gate=1"]
    assert values(received(options, [(b"Set-Cookie", value) for value in cookies]), b"set-cookie") == cookies


@pytest.mark.parametrize(
    "value",
    [
        *(b"_gate=x", b" _gate = x; Path=/", b"_GATE=x", b"_gate_1=x", b"_gate_csrf=x; Domain=example.com", b"_gate_signin_ab=x"),
        *(b"_gate_admin=x", b"=_gate=x", b" = _gate=x", b"==_gate=x", b"_gate", b"\t_gate\t=x"),
    ],
)
def test_upstream_cannot_set_gate_cookies(options, value):
    assert values(received(options, [(b"Set-Cookie", value), (b"set-cookie", b"ok=1")]), b"set-cookie") == [b"ok=1"]


@pytest.mark.parametrize("value", [b"a\r\nx-injected: 1", b"a\nb", b"a\rb", b"a\0b", b"a\x0bb", b"a\x7f"])
def test_refuses_response_splitting(options, value):
    with pytest.raises(UpstreamError):
        received(options, [(b"Location", value)])


@pytest.mark.parametrize("value", [b"a\x85b", b"a\xc2\x85b", b"\xc1\x85", b"\xe5\x85", b"a\x92"])
def test_drops_response_headers_with_c1_controls(options, value):
    headers = received(options, [(b"Set-Cookie", b"name=" + value), (b"X-City", value), (b"X-Other", b"1")])
    assert (values(headers, b"set-cookie"), values(headers, b"x-city"), values(headers, b"x-other")) == ([], [], [b"1"])


@pytest.mark.parametrize("value", ["Åsa", "Архангельск", "内", "😅"])
def test_utf8_response_headers_pass(options, value):
    headers = received(options, [(b"Set-Cookie", b"name=" + value.encode()), (b"X-City", value.encode())])
    assert (values(headers, b"set-cookie"), values(headers, b"x-city")) == ([b"name=" + value.encode()], [value.encode()])


def test_a_malformed_response_header_name_is_refused(options):
    with pytest.raises(UpstreamError):
        received(options, [(b"x y", b"1")])


def test_long_response_header_names_are_not_cached(options):
    rules, cached = ResponseHeaderRules.build(options), len(_NAMES)
    names = [b"X-%d-" % number + b"a" * 16_384 for number in range(20)]
    assert [name for name, _ in rules.filter([(name, b"1") for name in names])][:20] == [name.lower() for name in names]
    assert len(_NAMES) == cached


def test_route_rules_override_global_rules(options_of):
    options = options_of(
        headers={"X-Frame-Options": "SAMEORIGIN", "X-All": "1", "Server": "gate"},
        policy=[ROUTE | {"set_response_headers": {"x-frame-options": "DENY"}, "remove_response_headers": ["SERVER", "X-Theirs"]}, ROUTE],
    )
    with_rules, without = options.policy
    assert ResponseHeaderRules.for_route(without, options) is None
    rules = ResponseHeaderRules.for_route(with_rules, options)
    headers = [
        (b"X-Frame-Options", b"ALLOWALL"),
        (b"server", b"theirs"),
        (b"X-Theirs", b"1"),
        (b"X-Kept", b"_gate=x"),
        (b"Set-Cookie", b"_gate=x"),
    ]
    assert sorted(rules.filter(headers)) == [(b"x-all", b"1"), (b"x-frame-options", b"DENY"), (b"x-kept", b"_gate=x")]
    assert set(rules.to_envoy_rules().split(b"&")) == {b"+x-frame-options=DENY", b"+x-all=1", b"-server", b"-x-theirs"}


@pytest.mark.parametrize(
    ("key", "expected"), [({"set_response_headers": {"X-A": "1"}}, b"+x-a=1"), ({"remove_response_headers": ["X-A"]}, b"-x-a")]
)
def test_single_rule_is_encoded(options_of, key, expected):
    options = options_of(headers={"disable": True}, policy=[ROUTE | key])
    assert ResponseHeaderRules.for_route(options.policy[0], options).to_envoy_rules() == expected


def test_envoy_rules_are_escaped(options_of):
    rules = {"set_response_headers": {"X&+--": "a=b&-c %41\u00fc"}, "remove_response_headers": ["a&b"]}
    options = options_of(headers={"disable": True}, policy=[ROUTE | rules])
    encoded = ResponseHeaderRules.for_route(options.policy[0], options).to_envoy_rules()
    assert encoded == b"+x%26%2B--=a%3Db%26-c%20%2541%FC&-a%26b"
