import pytest

from authorize.authorizer import WithheldCredentials
from config.routes.route import Route
from config.routes.route_identity_headers import IdentityHeaderNames
from foundation.errors import BadRequest
from proxy.rewriting.request_headers import _HEADER_KINDS, Downstream, RequestHeaderRules, framing
from proxy.rewriting.reserved_headers import MAX_CACHED_NAME_BYTES, fold
from tests.support.internal_headers import INTERNAL
from tests.support.options import make_options

CLIENT = Downstream("192.0.2.7", "https", b"app.example.com", "0123456789abcdef0123456789abcdef")
FORGED = b"forged"
ASSERTION = (b"x-gate-jwt-assertion", b"genuine")


def aliases(name):
    """Yield every spelling of `name` that some upstream may confuse with it."""
    yield from (name, name.lower(), name.upper(), name.swapcase())
    for separator in ("_", ".", "", "~", "!"):
        yield name.replace("-", separator)
        yield name.replace("-", separator, 1)
    yield from ("-" + name, name + "-", "#" + name, name + "$", name.replace("-", "--"))
    for odd in "\x0b\x0c\x1c\x1d\x1e\x85 \t":
        yield from (name + odd, odd + name, name.replace("-", odd), f"{name[:3]}{odd}{name[3:]}")


ALIASES = [alias.encode("latin-1") for name in INTERNAL for alias in aliases(name)]


@pytest.fixture(scope="module")
def options_of(tmp_path_factory):
    return lambda **settings: make_options(tmp_path_factory.mktemp("options"), **settings)


@pytest.fixture(scope="module")
def options(options_of):
    return options_of()


def make_route(**keys):
    return Route.model_validate({"from": "https://app.example.com", "to": "http://upstream.internal", **keys})


def sent(options, headers, *, downstream=CLIENT, identity=(), withheld=WithheldCredentials.GATE, **keys):
    route = make_route(**keys)
    return RequestHeaderRules.build(route, options, IdentityHeaderNames([route])).for_upstream(
        headers, downstream, b"upstream.internal", identity, withheld
    )


def values(headers, name):
    return [value for candidate, value in headers if fold(candidate) == fold(name)]


@pytest.mark.parametrize("passes_identity", [True, False])
def test_no_alias_of_an_internal_header_reaches_the_upstream(options, passes_identity):
    identity = (ASSERTION,) if passes_identity else ()
    for alias in ALIASES:
        headers = [(alias, FORGED), (b"accept", b"*/*"), (alias, FORGED), (alias, b""), (alias, FORGED * 10_000)]
        out = sent(options, headers, identity=identity, pass_identity_headers=passes_identity)
        assert not any(FORGED in value for _, value in out), alias
        assert values(out, b"x-gate-jwt-assertion") == [value for _, value in identity]
        assert values(out, b"accept") == [b"*/*"]


def test_client_claim_header_is_dropped_if_the_claim_is_absent(options):
    out = sent(options, [(b"x-gate-claim-groups", b"admin")], identity=(ASSERTION,), pass_identity_headers=True)
    assert values(out, b"x-gate-claim-groups") == []


@pytest.mark.parametrize(
    "name", [b"x-gateway-id", b"x-requested-with", b"forwarded-note", b"proxy-mode", b"x-origin", b"host-name", b"x-realm"]
)
def test_similar_header_name_passes(options, name):
    assert values(sent(options, [(name, b"1")]), name) == [b"1"]


@pytest.mark.parametrize(
    "named", ["X-Gate-Jwt-Assertion", "x-gate-jwt-assertion", "X-FORWARDED-FOR", "x-real-ip", "Host", "X-Request-Id", "X-Set"]
)
def test_connection_removes_no_header_of_gate(options, named):
    headers = [(b"connection", f"close, {named}".encode()), (b"x-own", b"1")]
    out = sent(options, headers, identity=(ASSERTION,), set_request_headers={"X-Set": "ours"})
    for name in (b"x-gate-jwt-assertion", b"x-forwarded-for", b"x-real-ip", b"host", b"x-request-id", b"x-set", b"x-own"):
        assert len(values(out, name)) == 1, name


def test_connection_removes_listed_client_headers(options):
    headers = [(b"x-hop", b"1"), (b"connection", b"close, X-HOP"), (b"Connection", b"\tx-other "), (b"x-other", b"1"), (b"x-stays", b"1")]
    out = sent(options, headers)
    assert [values(out, name) for name in (b"x-hop", b"x-other", b"x-stays", b"connection")] == [[], [], [b"1"], []]


def test_header_named_like_a_connection_option_passes(options):
    assert values(sent(options, [(b"connection", b"close"), (b"close", b"1")]), b"close") == [b"1"]


def test_connection_does_not_remove_end_to_end_headers(options):
    headers = [(b"connection", b"cookie, authorization, host"), (b"cookie", b"a=1"), (b"authorization", b"Basic eDp5")]
    out = sent(options, headers)
    assert values(out, b"cookie") == [b"a=1"]
    assert values(out, b"authorization") == [b"Basic eDp5"]


@pytest.mark.parametrize(
    "name",
    ["Connection", "Proxy-Connection", "Keep-Alive", "TE", "Trailer", "Transfer-Encoding", "Upgrade", "Proxy-Authorization", "Expect"],
)
def test_drops_hop_by_hop_headers(options, name):
    for alias in (name.encode(), name.lower().encode(), name.replace("-", "_").encode()):
        assert values(sent(options, [(alias, b"x")]), alias) == []


@pytest.mark.parametrize("name", [b"content-length", b"Content_Length", b"transfer.encoding", b"Host", b"host"])
def test_drops_client_framing_and_host(options, name):
    assert FORGED not in values(sent(options, [(name, FORGED)]), name)


def test_strips_gate_cookies_and_preserves_others(options):
    remaining = b'my_gate=1; a="x; y" ;b=%5Fgate=2;;  c=d,e;\xff=\x80;_gat=9; a=2'
    header = b"_gate=v; " + remaining + b"; _GATE_1=chunk; _gate_csrf=t ; _gate_signin_x=y;_gate_admin=z"
    assert values(sent(options, [(b"cookie", header), (b"cookie", b"only=1")]), b"cookie") == [remaining, b"only=1"]


def test_drops_cookie_header_with_gate_cookies_only(options):
    assert values(sent(options, [(b"cookie", b"_gate=v; _gate_csrf=t")]), b"cookie") == []


def test_the_cookie_name_is_never_a_pattern(options_of):
    options = options_of(cookie_name="g.te")
    assert values(sent(options, [(b"cookie", b"gate=1; g.te=2; xg.te=3")]), b"cookie") == [b"gate=1; xg.te=3"]


@pytest.mark.parametrize(
    "credentials",
    [
        b"Gate token",
        b"gate token",
        b"Bearer Gate-token",
        b"BEARER  gate-token",
        b" Gate token",
        b"Gate\ttoken",
        b"Basic eDp5,Bearer gate-t",
    ],
)
def test_drops_gate_bearer_tokens(options, credentials):
    assert values(sent(options, [(b"authorization", credentials)]), b"authorization") == []


def test_token_in_another_header_passes(options):
    assert values(sent(options, [(b"x-note", b"Gate token")]), b"x-note") == [b"Gate token"]


def test_route_may_set_override_and_forwarding_headers(options):
    rules = {"X-Forwarded-Host": "a", "X-HTTP-Method-Override": "PUT"}
    out = sent(options, [(b"x-forwarded-host", FORGED), (b"x-http-method-override", FORGED)], set_request_headers=rules)
    assert [values(out, name.encode()) for name in rules] == [[b"a"], [b"PUT"]]
    assert values(sent(options, [], set_request_headers={"Expect": "x"}), b"expect") == []


@pytest.mark.parametrize("credentials", [b"Bearer abc", b"Basic eDp5", b"Gateway x", b"Negotiate Gate x", b'Digest a="b", gate=c'])
def test_other_credentials_pass(options, credentials):
    assert values(sent(options, [(b"authorization", credentials)]), b"authorization") == [credentials]


def test_headers_keep_their_order_and_duplicates(options):
    headers = [(b"b", b"1"), (b"a", b"2"), (b"b", b"3"), (b"cookie", b"x=y"), (b"b", b"")]
    assert sent(options, headers)[: len(headers) + 1] == [(b"host", b"upstream.internal"), *headers]


def test_header_both_removed_and_set_is_set(options):
    headers = [(b"x_api.key", b"client"), (b"X-API-KEY", b"client"), (b"x-gone", b"client")]
    out = sent(options, headers, remove_request_headers=["X-Api-Key", "X-Gone"], set_request_headers={"X-Api-Key": "ours"})
    assert values(out, b"x-api-key") == [b"ours"]
    assert values(out, b"x-gone") == []


def test_set_request_headers_may_replace_credentials(options):
    out = sent(options, [(b"authorization", b"Basic eDp5")], set_request_headers={"Authorization": "Bearer service"})
    assert values(out, b"authorization") == [b"Bearer service"]


@pytest.mark.parametrize("name", ["X-Request-Id", "Host", "X-Envoy-Upstream-Rq-Timeout-Ms", "Impersonate-User"])
def test_set_request_headers_cannot_set_reserved_headers(options, name):
    assert FORGED not in values(sent(options, [], set_request_headers={name: FORGED.decode()}), name.encode())


def test_untrusted_forwarding_headers_are_replaced(options):
    forged = [
        (name, b"203.0.113.9") for name in (b"x-forwarded-for", b"x-real-ip", b"forwarded", b"x-forwarded-host", b"x-forwarded-proto")
    ]
    out = dict(sent(options, forged))
    assert out[b"x-forwarded-for"] == out[b"x-real-ip"] == b"192.0.2.7"
    assert out[b"forwarded"] == b'for=192.0.2.7;host="app.example.com";proto=https'
    assert (out[b"x-forwarded-host"], out[b"x-forwarded-proto"], out[b"x-forwarded-port"]) == (b"app.example.com", b"https", b"443")


def test_even_a_trusted_peer_passes_only_the_known_forwarding_headers(options_of):
    client_headers = [
        (b"x-forwarded-user", FORGED),
        (b"x-forwarded-client-cert", FORGED),
        (b"x_forwarded_for", FORGED),
        (b"x-forwarded-prefix", FORGED),
    ]
    out = sent(options_of(trusted_proxies=["192.0.2.0/24"]), client_headers)
    assert not any(FORGED in value for _, value in out)


def test_skip_xff_append_omits_the_peer(options_of):
    out = dict(sent(options_of(trusted_proxies=["192.0.2.0/24"], skip_xff_append=True), [(b"x-forwarded-for", b"203.0.113.9")]))
    assert out[b"x-forwarded-for"] == b"203.0.113.9"
    assert b"forwarded" not in out
    assert b"x-forwarded-for" not in dict(sent(options_of(skip_xff_append=True), [(b"x-forwarded-for", b"203.0.113.9")]))


def test_trusted_peer_sets_client_scheme_and_host(options_of):
    client_headers = [(b"x-forwarded-for", b"203.0.113.9"), (b"x-forwarded-proto", b"http"), (b"x-forwarded-host", b"public.example")]
    out = dict(sent(options_of(trusted_proxies=["192.0.2.0/24"]), client_headers))
    assert out[b"x-forwarded-for"] == b"203.0.113.9, 192.0.2.7"
    assert out[b"forwarded"] == b'for=203.0.113.9;host="public.example";proto=http'
    assert b"for=192.0.2.7;" in dict(sent(options_of(trusted_proxies=["10.0.0.0/8"]), client_headers))[b"forwarded"]


def test_ipv6_peer_is_quoted_and_port_is_forwarded(options):
    out = dict(sent(options, [], downstream=Downstream("2001:db8::1", "https", b"[2001:db8::2]:8443", "0" * 32)))
    assert out[b"forwarded"] == b'for="[2001:db8::1]";host="[2001:db8::2]:8443";proto=https'
    assert (out[b"x-forwarded-for"], out[b"x-forwarded-port"]) == (b"2001:db8::1", b"8443")


def test_client_request_id_is_replaced(options):
    assert values(sent(options, [(b"x-request-id", FORGED)]), b"x-request-id") == [CLIENT.request_id.encode()]


def credentials_left(options, headers, withheld):
    return tuple(value for _, value in RequestHeaderRules.for_delegation(options).remaining_credentials(headers, withheld))


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([], (b"", b"")),
        ([(b"cookie", b"a=1; _gate=s; b=2"), (b"cookie", b"_gate_csrf=x")], (b"a=1; b=2", b"")),
        ([(b"cookie", b"a=1"), (b"cookie", b"b=2"), (b"authorization", b"Basic x")], (b"a=1; b=2", b"Basic x")),
        ([(b"authorization", b"Gate t")], (b"", b"")),
        ([(b"authorization", b"Basic a"), (b"authorization", b"Gate b")], (b"", b"")),
    ],
)
def test_delegation_preserves_other_credentials_only(options, headers, expected):
    assert credentials_left(options, headers, WithheldCredentials.GATE) == expected


def test_long_header_names_are_classified_but_not_cached(options):
    """Clients choose the names: four thousand of 16 KiB would stay in memory."""
    rules, identity = RequestHeaderRules.build(make_route(), options, IdentityHeaderNames(())), b"x-gate-claim-" + b"a" * 4096
    names = [b"x-%d-" % number + b"a" * MAX_CACHED_NAME_BYTES for number in range(20)]
    before = len(_HEADER_KINDS)
    for name in [*names, identity]:
        assert (name in dict(rules.for_upstream([(name, b"1")], CLIENT, b"upstream.internal", (), WithheldCredentials.GATE))) == (
            name != identity
        )
    assert len(_HEADER_KINDS) == before
    rules.for_upstream([(b"x-short-name-of-this-test", b"1")], CLIENT, b"upstream.internal", (), WithheldCredentials.GATE)
    assert len(_HEADER_KINDS) == before + 1


@pytest.mark.parametrize(
    ("withheld", "cookie", "authorization"),
    [
        (WithheldCredentials.GATE, b"a=b", b"Bearer of.the.provider"),
        (WithheldCredentials.AUTHORIZATION, b"a=b", b""),
        (WithheldCredentials.ALL, b"", b""),
    ],
)
def test_withheld_credentials_are_dropped(options, withheld: WithheldCredentials, cookie: bytes, authorization: bytes) -> None:
    client_headers = [(b"accept", b"*/*"), (b"authorization", b"Bearer of.the.provider"), (b"cookie", b"_gate=s; a=b")]
    out = sent(options, client_headers, withheld=withheld)
    assert (b"accept", b"*/*") in out
    expected = [value for value in (authorization, cookie) if value]
    assert values(out, b"authorization") + values(out, b"cookie") == expected
    assert credentials_left(options, client_headers, withheld) == (cookie, authorization)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([], (False, None)),
        ([(b"content-length", b"0")], (False, 0)),
        ([(b"content-length", b"12")], (True, 12)),
        ([(b"transfer-encoding", b"chunked")], (True, None)),
    ],
)
def test_parses_framing(headers, expected):
    assert framing(headers) == expected


@pytest.mark.parametrize(
    "headers",
    [
        [(b"content-length", b"1"), (b"transfer-encoding", b"chunked")],
        [(b"content-length", b"1"), (b"content-length", b"1")],
        *([(b"content-length", value)] for value in (b"+1", b"-1", b"0x1", b"1_0", b" 1", b"", b"1, 1", "\u0661".encode())),
    ],
)
def test_refuses_ambiguous_framing(headers):
    with pytest.raises(BadRequest):
        framing(headers)
