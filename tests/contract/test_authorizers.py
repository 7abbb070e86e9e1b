"""Every Authorizer returns the same verdict: in this process, and in another process over real gRPC with Envoy's messages."""

import math
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from authorize.accessible_routes import AccessibleRoute
from authorize.authorizer import Authorizer
from authorize.ext_authz_types import CheckResponder, ExtAuthzDependencies
from authorize.policy.decision import Outcome
from authorize.policy.decision_text import user_message
from authorize.policy.mcp_message import McpMessage
from authorize.policy.policy_request import PolicyRequest
from authorize.policy.reasons import Reason
from authorize.rpc import check_attributes
from authorize.rpc.ext_authz import SERVICE, ExtAuthz
from authorize.rpc.remote_authorizer import RemoteAuthorizer
from authorize.service import AuthorizeService
from authorize.upstream.account_connections import upstream_server
from authorize.upstream.identity_headers import Headers
from authorize.upstream.upstream_oauth_tokens import token_hash
from config.settings.oauth_settings import COMMAND_LINE_ID
from databroker.agent_records import AccessToken, AgentAuthorization
from databroker.grants.grant_records import AccessGrant, UserGrants
from databroker.records import ACCESS_GRANT, SERVICE_ACCOUNT, SESSION, ServiceAccountRecord, SessionRecord
from databroker.replica import Replica
from foundation.crypto.agent_token import AgentTokenKind
from foundation.crypto.agent_token import new_token as new_agent_token
from foundation.crypto.service_account_token import hash_token, new_token
from foundation.crypto.session_cookie import SessionCookies
from foundation.crypto.signing_key import SigningKey
from foundation.errors import AccountConnectionRequired, BadRequest, BrokerError, NoIdentity, UpstreamCredentialsUnavailable
from foundation.rpc.rpc_channel import RpcChannel
from foundation.rpc.rpc_server import RpcServer
from foundation.rpc.shared_secret import SharedSecret
from foundation.values import HostPort
from tests.support.connections import a_connection, put_connection, stored_connection
from tests.support.cookies import signed_in
from tests.support.options import make_options
from tests.support.rpc import loopback_url
from tests.unit.authorize.broker import ISSUER, BreakableBroker, followed_broker, settled
from tests.unit.authorize.builders import recorder, request

NOW = 1500.0
AGENT_SESSION = "a" * 43
TUNNEL = "tcp+https://db.example.com:5432"
APP = {"from": "https://app.example.com", "to": "http://up"}
TOOL_POLICY = [
    {"deny": {"mcp_tool": {"not_in": ["search", "admin"]}}},
    {"deny": {"and": [{"mcp_tool": "admin"}, {"email": {"not_is": "boss@corp.com"}}]}},
]
SCOPES = {"read": "Read", "write": "Write", "admin": "Administer"}
SCOPE_POLICY = [
    {"allow": {"and": [{"client": "build-agent"}, {"scope": "read"}]}},
    {"deny": {"and": [{"mcp_tool": ["write", "admin"]}, {"scope": {"not_in": ["write"]}}]}},
    {"deny": {"and": [{"mcp_tool": "admin"}, {"email": {"not_is": "boss@corp.com"}}]}},
]
POLICY = [
    {**APP, "prefix": "/public", "allow_public_unauthenticated_access": True},
    {**APP, "prefix": "/bob", "allowed_users": ["bob@corp.com"], "pass_identity_headers": True},
    {**APP, "prefix": "/header", "policy": {"allow": {"and": [{"http_header/x-team": "blue"}]}}},
    {**APP, "prefix": "/address", "policy": {"allow": {"and": [{"source_ip": "10.0.0.0/8"}]}}},
    {**APP, "prefix": "/cluster", "allow_any_authenticated_user": True, "cluster_service_account_token": "the-token"},
    {**APP, "prefix": "/told", "allow_any_authenticated_user": True, "set_request_headers": {"X-Told": "${user} ${request_id}"}},
    {**APP, "prefix": "/named", "allow_any_authenticated_user": True, "set_request_headers": {"Authorization": "Key ${claim.key}"}},
    {
        **APP,
        "prefix": "/tokens",
        "to": "https://up",
        "allow_any_authenticated_user": True,
        "pass_provider_tokens": True,
        "set_request_headers": {"X-Token": "${access_token}"},
    },
    {
        **APP,
        "prefix": "/third",
        "to": "https://up",
        "portal": "hide",
        "allow_any_authenticated_user": True,
        "mcp": {"upstream_oauth": {}},
    },
    {**APP, "prefix": "/given", "portal": "hide", "policy": {"allow": {"granted": True}}},
    {**APP, "prefix": "/both", "portal": "hide", "policy": {"allow": {"granted": True}}, "allowed_domains": ["corp.com"]},
    {**APP, "prefix": "/gone", "redirect": {"host_redirect": "other.example.com"}, "to": None},
    {**APP, "prefix": "/mcp", "mcp": {}, "portal": "hide", "allowed_domains": ["corp.com"], "policy": TOOL_POLICY},
    {**APP, "prefix": "/scoped", "mcp": {"scopes": SCOPES}, "policy": SCOPE_POLICY},
    {
        **APP,
        "prefix": "/requested",
        "mcp": {},
        "portal": "hide",
        "allowed_domains": ["corp.com"],
        "access_requests": {"approvers": [{"groups": "leads"}], "tools": ["delete_*"]},
        "policy": {"deny": {"and": [{"mcp_tool": {"not_in": ["search"]}}, {"not": {"granted": True}}]}},
    },
    {**APP, "allowed_domains": ["corp.com"], "pass_identity_headers": True, "cors_allow_preflight": True},
    {"from": TUNNEL, "to": "tcp://up:5432", "portal": "hide", "allowed_domains": ["corp.com"]},
    {"from": "tcp+https://db.example.com:22", "to": "tcp://up:22", "portal": "hide", "allowed_domains": ["corp.com"]},
    {"from": "https://other.example.com:8443", "to": "http://up", "allowed_groups": ["nobody"]},
    {"from": "https://strong.example.com", "prefix": "/strong", "to": "http://up", "allowed_domains": ["corp.com"], "acr_values": ["mfa"]},
]


@dataclass
class World:
    authorizer: Authorizer
    broker: BreakableBroker
    replica: Replica
    cookies: SessionCookies
    service: AuthorizeService  # which decides

    def cookie(self, host_port: str = "app.example.com") -> list[bytes]:
        return [b"a=b", signed_in(self.cookies, "s1", host_port, issued=1000.0, expires=2000.0).encode()]


@pytest.fixture(params=["local", "over gRPC"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    policy = [{key: value for key, value in route.items() if value is not None} for route in POLICY]
    options = make_options(tmp_path, policy=policy, jwt_claims_headers=["email"], grpc_client_timeout="5s")
    async with followed_broker() as (broker, replica):
        service = AuthorizeService(options, replica, SigningKey.from_options(options), clock=lambda: NOW)
        await broker.sign_in()
        await settled()
        cookies = SessionCookies(options)
        if request.param == "local":
            yield World(service, broker, replica, cookies, service)
            return
        server = RpcServer(options, SharedSecret(options.shared_secret))
        server.add(SERVICE, ExtAuthz(ExtAuthzDependencies(lambda: service, CheckResponder, replica, recorder(), timeout=0.05)).methods())
        server.bind(HostPort("127.0.0.1", 0))
        await server.start()
        channel = RpcChannel(loopback_url(server.port), options, SharedSecret(options.shared_secret))
        yield World(RemoteAuthorizer(options, channel, replica, lambda: NOW), broker, replica, cookies, service)
        await channel.close()
        await server.stop()


async def test_known_expiry_is_returned(world: World) -> None:
    """A grant's expiry limits the verdict only if no other rule allows the user. Anonymous and programmatic verdicts never expire."""
    keys = {path: world.authorizer.routes.match(request(path)).route.grant_key for path in ("/given", "/both")}
    held = tuple(AccessGrant(path, key, 1000.0, 1700.0, "bob", "a test") for path, key in keys.items())
    await world.broker.put(ACCESS_GRANT, "oidc/1", UserGrants("oidc/1", ISSUER, "ann", held).to_data())
    await settled()
    ends = {
        path: (await world.authorizer.check(request(path), world.cookie())).valid_until for path in ("/given", "/both", "/told", "/public")
    }
    assert ends == {"/given": 1700.0, "/both": 2000.0, "/told": 2000.0, "/public": math.inf}
    token = new_token("ci")
    await world.broker.put(SERVICE_ACCOUNT, "ci", ServiceAccountRecord("ci", (), 1000.0, 9000.0, hash_token(token)).to_data())
    await settled()
    by_program = await world.authorizer.check(request("/told", headers=[(b"authorization", b"Bearer " + token.encode())]), [])
    assert (by_program.decision.outcome, by_program.valid_until) == (Outcome.ALLOWED, math.inf)


async def test_access_to_a_tool_is_requested_granted_and_expires(world: World) -> None:
    async def check(tool: str) -> tuple[bool, str, float]:
        found = await world.authorizer.check(request("/requested", method="POST", mcp=call(tool)), world.cookie())
        return found.decision.is_allowed, found.requestable_tool, found.valid_until

    assert await check("delete_repo") == (False, "delete_repo", math.inf)
    assert await check("merge") == (False, "", math.inf)
    listing = request("/requested", method="POST", mcp=McpMessage("tools/list"))
    listed = await world.authorizer.check(listing, world.cookie())
    calls = [call(name) for name in ("search", "delete_repo", "merge")]
    # A tool that may be requested stays in the list.
    assert list(await world.authorizer.allowed_calls(listing, listed, world.cookie(), calls)) == [True, True, False]
    key = world.authorizer.routes.match(request("/requested")).route.grant_key
    held = (AccessGrant("a", key, 1000.0, 1700.0, "bob", "a test", tool="delete_repo"),)
    await world.broker.put(ACCESS_GRANT, "oidc/1", UserGrants("oidc/1", ISSUER, "ann", held).to_data())
    await settled()
    assert await check("delete_repo") == (True, "", 1700.0)
    assert await check("delete_all") == (False, "delete_all", math.inf)
    assert (await check("search"))[2] == 2000.0


def call(tool: str) -> McpMessage:
    return McpMessage("tools/call", tool=tool)


async def test_mcp_message_decides_and_calls_are_decided_as_if_they_were_made(world: World) -> None:
    tools = [call(name) for name in ("search", "delete", "admin")]
    checks = [await world.authorizer.check(request("/mcp", mcp=each), world.cookie()) for each in tools]
    assert [authorization.identity.user_id if authorization.identity else "" for authorization in checks] == ["oidc/1"] * 3, (
        "a refusal names the user"
    )
    outcomes = [authorization.decision.is_allowed for authorization in checks]
    listing = request("/mcp", method="POST", mcp=McpMessage("tools/list"))
    authorization = await world.authorizer.check(listing, world.cookie())
    assert outcomes == [True, False, False]
    assert authorization.decision.is_allowed
    assert list(await world.authorizer.allowed_calls(listing, authorization, world.cookie(), tools)) == outcomes
    unread = await world.authorizer.check(request("/mcp", method="POST"), world.cookie())
    assert not unread.decision.is_allowed
    assert list(await world.authorizer.allowed_calls(listing, unread, world.cookie(), tools)) == [False, False, False]
    assert list(await world.authorizer.allowed_calls(listing, authorization, world.cookie(), [])) == []


@pytest.mark.parametrize(
    ("client_id", "scopes", "tool", "outcome", "missing"),
    [
        ("build-agent", ("read",), "search", Outcome.ALLOWED, ()),
        ("build-agent", (), "search", Outcome.FORBIDDEN, ("read",)),
        ("build-agent", ("read",), "write", Outcome.FORBIDDEN, ("write",)),
        ("build-agent", (), "write", Outcome.FORBIDDEN, ("read", "write")),
        ("build-agent", ("read",), "admin", Outcome.FORBIDDEN, ()),
        ("build-agent", ("read", "write"), "admin", Outcome.FORBIDDEN, ()),
        ("other-agent", ("read",), "search", Outcome.FORBIDDEN, ()),
    ],
)
async def test_client_and_scopes_decide(
    world: World, client_id: str, scopes: tuple[str, ...], tool: str, outcome: Outcome, missing: tuple[str, ...]
) -> None:
    headers = await put_agent(world, client_id, "https://app.example.com/scoped", scopes)
    check = await world.authorizer.check(request("/scoped", method="POST", mcp=call(tool), headers=headers), [])
    assert (check.decision.outcome, check.missing_scopes) == (outcome, missing)
    assert check.identity is not None
    assert (check.identity.client_id, check.identity.scopes) == (client_id, set(scopes))
    by_browser = await world.authorizer.check(request("/scoped", method="POST", mcp=call(tool)), world.cookie())
    assert (by_browser.decision.outcome, by_browser.missing_scopes) == (Outcome.FORBIDDEN, ())


async def put_agent(world: World, client_id: str, resource: str, scopes: tuple[str, ...] = ()) -> list[tuple[bytes, bytes]]:
    """Write the session of a client, and return the header with its access token."""
    await world.broker.sign_in()
    token = new_agent_token(AgentTokenKind.ACCESS, AGENT_SESSION)
    access = (AccessToken(token.hash, 1600.0, scopes),)
    agent = AgentAuthorization(client_id, "Agent", resource, scopes, 1000.0, 1000.0, access_tokens=access)
    session = SessionRecord(AGENT_SESSION, "oidc/1", "1", "oidc", 1000.0, 2000.0, agent=agent, issuer=ISSUER)
    await world.broker.put(SESSION, AGENT_SESSION, session.to_data())
    await settled()
    return [(b"authorization", b"Bearer " + token.token.encode())]


async def test_stream_of_the_command_line_continues_with_its_session(world: World) -> None:
    headers = await put_agent(world, COMMAND_LINE_ID, TUNNEL)
    opening = PolicyRequest("CONNECT", "db.example.com", 5432, "/", headers=headers)
    opened = await world.authorizer.check(opening, [])
    assert (opened.decision.outcome, opened.valid_until) == (Outcome.ALLOWED, 1600.0)
    assert opened.identity is not None
    assert opened.identity.has_oauth_token
    stream = replace(opening, headers=[(b"authorization", b"Bearer replaced")], stream_session_id=AGENT_SESSION)
    again = await world.authorizer.check(stream, [])
    assert (again.decision.outcome, again.valid_until) == (Outcome.ALLOWED, 2000.0)
    assert again.identity is not None
    assert (again.identity.session_id, again.identity.client_id) == (AGENT_SESSION, COMMAND_LINE_ID)
    for other in (replace(stream, port=22), replace(request("/"), stream_session_id=AGENT_SESSION)):
        assert (await world.authorizer.check(other, world.cookie())).decision.outcome is Outcome.SIGN_IN
    await world.broker.delete(SESSION, AGENT_SESSION)
    await settled()
    assert (await world.authorizer.check(stream, world.cookie())).decision.outcome is Outcome.SIGN_IN


async def test_envoy_of_a_customer_names_no_stream(world: World) -> None:
    await put_agent(world, COMMAND_LINE_ID, "https://app.example.com")
    stream = replace(request("/"), stream_session_id=AGENT_SESSION)
    assert (await world.authorizer.check(stream, [])).decision.outcome is Outcome.ALLOWED
    read, _ = check_attributes.from_check_request(check_attributes.to_check_request(stream, [], {}), frozenset({443}))
    assert read == replace(stream, stream_session_id="")


@pytest.mark.parametrize(
    ("requested", "outcome"),
    [
        (request("/"), Outcome.ALLOWED),
        (request("/public/x?a=1&b"), Outcome.ALLOWED),
        (request("/bob"), Outcome.FORBIDDEN),
        (request("/", host="other.example.com:8443"), Outcome.SIGN_IN),
        (request("/", host="unknown.example.com"), Outcome.NO_ROUTE),
        (request("/header", headers=[(b"x-team", b"blue")]), Outcome.ALLOWED),
        (request("/header", headers=[(b"x-team", b"red"), (b"x-team", b"bl\xfce")]), Outcome.FORBIDDEN),
        (request("/address", source_ip="10.1.2.3"), Outcome.ALLOWED),
        (request("/address", source_ip="192.0.2.1"), Outcome.FORBIDDEN),
        (request("/gone"), Outcome.ALLOWED),
        (request("/", method="OPTIONS", origin=b"https://o.example", access_control_request_method=b"PUT"), Outcome.ALLOWED),
    ],
    ids=lambda value: f"{value.method} {value.host}{value.path}" if hasattr(value, "path") else value.name,
)
async def test_request_selects_route_and_decision(world, requested, outcome):
    authorization = await world.authorizer.check(requested, world.cookie())
    assert authorization.decision.outcome is outcome
    expected = world.authorizer.routes.match(requested)
    assert authorization.decision.compiled_route is expected
    assert authorization.decision.is_preflight == (requested.method == "OPTIONS")


async def test_identity_reaches_upstream_and_access_log(world):
    authorization = await world.authorizer.check(request("/"), world.cookie())
    assert [name for name, _ in authorization.identity_headers] == list(world.authorizer.identity_header_names)
    assert dict(authorization.identity_headers)[b"x-gate-claim-email"] == b"ann@corp.com"
    assert authorization.identity is not None
    assert (authorization.identity.session_id, authorization.identity.user_id, authorization.identity.display_name) == (
        "s1",
        "oidc/1",
        "ann@corp.com",
    )
    assert authorization.identity.expires_at == 2000.0


async def test_route_header_templates_reach_the_upstream(world):
    authorization = await world.authorizer.check(request("/told"), world.cookie(), "r1")
    assert authorization.identity_headers == ((b"x-told", b"oidc/1 r1"),)


async def test_admin_shows_session_groups_and_claims(world):
    await world.broker.sign_in("s2", claims={"team": "blue"})
    await settled()
    identity = await world.authorizer.load_session_identity("s2")
    assert (identity.user_id, identity.display_name, identity.expires_at) == ("oidc/1", "ann@corp.com", 2000.0)
    assert identity.claims["team"] == ("blue",)
    assert await world.authorizer.load_session_identity("unknown") is None


async def test_credentials_only_on_their_route(world):
    requested = request("/cluster")
    authorization = await world.authorizer.check(requested, world.cookie())
    assert world.authorizer.injects_credentials(authorization.decision.compiled_route)
    found = await world.authorizer.credentials_for(authorization, requested, world.cookie())
    assert found == ((b"authorization", b"Bearer the-token"), (b"impersonate-user", b"ann@corp.com"))
    assert b"the-token" not in b"".join(value for _, value in authorization.identity_headers)
    plain = await world.authorizer.check(request("/"), world.cookie())
    assert not world.authorizer.injects_credentials(plain.decision.compiled_route)
    assert await world.authorizer.credentials_for(plain, request("/"), world.cookie()) == ()


async def test_account_at_a_third_party_server_is_used_or_required(world: World) -> None:
    world.service.credentials._oauth_tokens._broker = world.broker
    requested = request("/third")
    authorization = await world.authorizer.check(requested, world.cookie())
    server = upstream_server(authorization.decision.compiled_route.route)

    async def credentials(rejected: str = "") -> Headers:
        return await world.authorizer.credentials_for(authorization, requested, world.cookie(), rejected)

    with pytest.raises(AccountConnectionRequired):
        await credentials()
    await put_connection(world.broker, a_connection(server, lambda: NOW, user_id="oidc/1", issuer=ISSUER))
    assert await credentials() == ((b"authorization", b"Bearer access-1"),)
    assert await credentials(token_hash(b"Bearer another")) == ((b"authorization", b"Bearer access-1"),)
    with pytest.raises(AccountConnectionRequired):
        await credentials(token_hash(b"Bearer access-1"))
    connection = await stored_connection(world.broker, "oidc/1", server.resource.uri)
    assert connection is not None
    assert (connection.access_token, connection.refused_at) == ("", NOW)


async def test_missing_required_claim_has_the_same_error(world):
    with pytest.raises(NoIdentity, match=r"^it requires claim\.key"):
        await world.authorizer.check(request("/named"), world.cookie())
    requested = request("/tokens")
    authorization = await world.authorizer.check(requested, world.cookie())
    assert world.authorizer.injects_credentials(authorization.decision.compiled_route)
    with pytest.raises(UpstreamCredentialsUnavailable, match="no data broker") as refused:
        await world.authorizer.credentials_for(authorization, requested, world.cookie())
    assert not isinstance(refused.value, NoIdentity)


async def test_denied_user_gets_the_reason_and_no_assertion(world):
    authorization = await world.authorizer.check(request("/bob"), world.cookie())
    assert authorization.identity_headers == ()
    assert user_message(authorization.decision).params == {"reasons": Reason.USER_NOT_LISTED.value}
    assert authorization.identity is not None


async def test_without_session_there_is_no_identity(world):
    for cookies in ([], [b"_gate=x"], world.cookie("other.example.com")):
        authorization = await world.authorizer.check(request("/"), cookies)
        assert (authorization.decision.outcome, authorization.identity, authorization.identity_headers) == (Outcome.SIGN_IN, None, ())
        assert await world.authorizer.identify(cookies, "app.example.com") is None


async def test_identities_and_attestations_are_for_one_host(world):
    identity = await world.authorizer.identify(world.cookie(), "app.example.com")
    assert identity is not None
    assert identity.user_id == "oidc/1"
    attestation = await world.authorizer.attest(request("/.gate/jwt"), world.cookie())
    assert attestation.identity is not None
    assert attestation.assertion.count(".") == 2
    elsewhere = request("/.gate/jwt", host="other.example.com:8443")
    attestation = await world.authorizer.attest(elsewhere, world.cookie("other.example.com:8443"))
    assert attestation.identity is not None
    assert attestation.assertion == ""


async def test_a_path_with_two_readings_is_refused(world):
    with pytest.raises(BadRequest):
        await world.authorizer.check(request("/;x/bob"), world.cookie())


async def test_no_decision_without_broker(world):
    world.broker.is_down = True
    with pytest.raises(BrokerError):
        await world.authorizer.check(request("/"), world.cookie())
    assert (await world.authorizer.check(request("/public"), world.cookie())).decision.is_allowed


async def test_hosts_are_known_from_the_configuration(world):
    assert world.authorizer.serves_host("app.example.com", None)
    assert not world.authorizer.serves_host("unknown.example.com", None)
    assert world.authorizer.is_route_origin("https://other.example.com:8443")
    assert world.authorizer.is_public(request("/public"))
    assert not world.authorizer.is_public(replace(request("/"), path="/x"))


async def test_a_service_account_is_known_and_a_bad_secret_challenged(world: World) -> None:
    token = new_token("ci")
    await world.broker.put(SERVICE_ACCOUNT, "ci", ServiceAccountRecord("ci", ("nobody",), 1000.0, 99_000.0, hash_token(token)).to_data())
    await settled()
    valid, bad = ([(b"authorization", b"Bearer " + value.encode())] for value in (token, new_token("ci")))
    authorization = await world.authorizer.check(request("/", "other.example.com:8443", headers=valid), [])
    assert authorization.decision.outcome is Outcome.ALLOWED
    assert authorization.identity is not None
    assert (authorization.identity.user_id, authorization.challenge) == ("service_account/ci", "")
    authorization = await world.authorizer.check(request("/", "other.example.com:8443", headers=bad), [])
    assert (authorization.decision.outcome, authorization.identity) == (Outcome.SIGN_IN, None)
    assert 'error="invalid_token"' in authorization.challenge


async def test_accessible_hosts_match_the_decisions_on_requests(world: World) -> None:
    requester = request("/.gate/", "auth.example.com", source_ip="10.1.2.3", headers=[(b"x-team", b"blue"), (b"cookie", b"a=b")])

    async def accessible(requester: PolicyRequest) -> list[AccessibleRoute]:
        found = await world.authorizer.accessible_routes(requester, world.cookie("auth.example.com"))
        assert [each.route.route.prefix for each in found if each.serves_mcp] == ["/third", "/mcp", "/scoped", "/requested"]
        return [each for each in found if each.route.route.is_in_portal]

    found = await accessible(requester)
    assert [each.route.route.prefix for each in found if not each.opens_page] == ["/scoped"], "only for OAuth clients of the user"
    assert [each.route.route.prefix for each in found if each.serves_mcp] == ["/scoped"]
    assert [(each.route.route.prefix, each.needs_step_up, each.is_partially_accessible) for each in found] == [
        ("/public", False, False),
        ("/header", False, True),
        ("/address", False, False),
        ("/cluster", False, False),
        ("/told", False, False),
        ("/named", False, False),
        ("/tokens", False, False),
        ("/scoped", False, True),
        (None, False, False),
        ("/strong", True, False),
    ]
    elsewhere = replace(requester, source_ip="192.0.2.1", headers=())
    prefixes = [each.route.route.prefix for each in await accessible(elsewhere)]
    assert prefixes == ["/public", "/cluster", "/told", "/named", "/tokens", "/scoped", None, "/strong"]
    assert await world.authorizer.accessible_routes(requester, world.cookie("app.example.com")) == ()
