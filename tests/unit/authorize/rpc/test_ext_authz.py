"""Responses to gate's proxies and to external Envoys, and which callers are accepted."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from envoy.service.auth.v3 import external_auth_pb2 as pb
from google.rpc import code_pb2

from authorize.ext_authz_types import ExtAuthzDependencies
from authorize.policy.mcp_message import McpMessage
from authorize.policy.reasons import Reason
from authorize.rpc.check_attributes import ROUTE, SYNC_TOKEN, mcp_extension
from authorize.rpc.ext_authz import CHECK
from authorize.service import AuthorizeService
from databroker.records import SESSION
from foundation.crypto.session_cookie import SessionCookies
from foundation.crypto.signing_key import SigningKey
from foundation.rpc.shared_secret import TOKEN, SharedSecret
from foundation.values import HostPort
from gateproject.process.rpc_services import RpcServices
from proxy.planes.ext_authz import ExtAuthzResponder
from proxy.planes.pipeline import AuthorizationPipeline
from proxy.planes.shared_resources import SharedResources
from tests.support.children import free_port
from tests.support.cookies import signed_in
from tests.support.options import make_options
from tests.unit.authorize.broker import followed_broker, settled
from tests.unit.authorize.builders import recorder

NOW = 1500.0
BEARER = "a-long-token-of-somebody's-Envoy-0123456789"
APP = {"from": "https://app.example.com", "to": "http://up"}
POLICY = [
    {**APP, "prefix": "/public", "allow_public_unauthenticated_access": True},
    {**APP, "prefix": "/bob", "allowed_users": ["bob@corp.com"]},
    {**APP, "prefix": "/cluster", "allow_any_authenticated_user": True, "cluster_service_account_token": "the-cluster-token"},
    {"from": "https://app.example.com", "prefix": "/gone", "redirect": {"host_redirect": "other.example.com"}},
    {**APP, "prefix": "/mcp", "mcp": {}, "allowed_domains": ["corp.com"], "policy": [{"deny": {"mcp_tool": {"not_in": ["search"]}}}]},
    {**APP, "allowed_domains": ["corp.com"], "pass_identity_headers": True, "cors_allow_preflight": True},
]


class Envoy:
    """External Envoy: it sends plain headers and its own bearer token."""

    def __init__(self, channel: grpc.aio.Channel, cookies: SessionCookies, service: AuthorizeService, broker: Any, secret: SharedSecret):
        self.channel, self.cookies, self.service, self.broker, self.secret = channel, cookies, service, broker, secret

    async def ask(
        self, path: str = "/", *, token: str = BEARER, extensions: dict[str, str] | None = None, **headers: str
    ) -> pb.CheckResponse:
        check_request = pb.CheckRequest()
        http = check_request.attributes.request.http
        http.method, http.host, http.path = headers.pop("method", "GET"), headers.pop("host", "app.example.com"), path
        http.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
        check_request.attributes.context_extensions.update(extensions or {})
        metadata = [("authorization", f"Bearer {token}")] if token else []
        call = self.channel.unary_unary(CHECK, pb.CheckRequest.SerializeToString, pb.CheckResponse.FromString)
        return await call(check_request, metadata=metadata, timeout=5)

    def cookie(self, session_id: str = "s1") -> str:
        return f"theme=dark; {signed_in(self.cookies, session_id, 'app.example.com', issued=1000.0, expires=2000.0)}"


@pytest.fixture
async def envoy(tmp_path: Path) -> AsyncIterator[Envoy]:
    port = free_port()
    options = make_options(
        tmp_path, policy=POLICY, ext_authz_tokens=[BEARER], grpc_address=f"127.0.0.1:{port}", jwt_claims_headers=["email"]
    )
    async with followed_broker() as (broker, replica):
        service = AuthorizeService(options, replica, SigningKey.from_options(options), clock=lambda: NOW)
        await broker.sign_in()
        await settled()
        responder = ExtAuthzResponder(options, AuthorizationPipeline(options, service, SharedResources(), lambda: NOW))
        services = RpcServices(options)
        services.open(broker, ExtAuthzDependencies(lambda: service, lambda: responder, replica, recorder(), timeout=0.05))
        await services.start()
        assert options.grpc_address == HostPort("127.0.0.1", port)
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield Envoy(channel, SessionCookies(options), service, broker, SharedSecret(options.shared_secret))
        await services.stop_serving()


def added(answer: pb.CheckResponse) -> dict[str, str]:
    return {option.header.key: option.header.value for option in answer.ok_response.headers}


def denied(answer: pb.CheckResponse) -> dict[str, str]:
    return {option.header.key: option.header.value for option in answer.denied_response.headers}


async def test_allowed_request_gets_identity_headers_and_removals(envoy):
    claimed = {"x_gate_jwt_assertion": "forged", "x_gate_claim_email": "boss@corp.com", "X_Gate_Claim_groups": "admins", "x_other": "1"}
    answer = await envoy.ask(cookie=envoy.cookie(), authorization="Gate abc", **claimed)
    assert answer.status.code == code_pb2.OK
    headers = added(answer)
    assert headers["x-gate-claim-email"] == "ann@corp.com"
    assert headers["x-gate-jwt-assertion"].count(".") == 2
    assert headers["cookie"] == "theme=dark"
    removed = {name.lower() for name in answer.ok_response.headers_to_remove}
    assert {"x-gate-claim-groups", "authorization"} <= removed
    assert "x-other" not in removed
    assert answer.dynamic_metadata["outcome"] == "ALLOWED"
    assert "s1" not in str(answer.dynamic_metadata)


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_mcp_message_from_another_envoy_is_ignored(envoy, method):
    """Only gate's own proxies read messages; the context extension of another Envoy does not count."""
    extension = mcp_extension(McpMessage("tools/call", tool="search"))
    answer = await envoy.ask("/mcp", cookie=envoy.cookie(), method=method, extensions=extension)
    assert (answer.denied_response.status.code, answer.status.code) == (403, code_pb2.PERMISSION_DENIED)
    assert json.loads(answer.denied_response.body)["error"]["code"] == -32010


async def test_cached_response_is_not_shared_between_users(envoy):
    await envoy.broker.sign_in("s2", "oidc/2", email="eve@corp.com")
    await settled()
    cookies = {"ann@corp.com": envoy.cookie(), "eve@corp.com": envoy.cookie("s2"), "": "", "long": f"{envoy.cookie()}; a={'x' * 4000}"}
    for _ in range(2):
        for username, cookie in cookies.items():
            answer = await envoy.ask(cookie=cookie, x_gate_role="admin", **({"x_gate_other": "1"} if username == "long" else {}))
            assert added(answer).get("x-gate-claim-email", "") == (username if "@" in username else "ann@corp.com" if username else "")
            removed = set(answer.ok_response.headers_to_remove)
            assert removed == ({"x-gate-role", "x-gate-other"} if username == "long" else {"x-gate-role"} if username else set())
            assert added(answer).get("cookie", "") == (
                f"theme=dark; a={'x' * 4000}" if username == "long" else "theme=dark" if username else ""
            )
    await envoy.broker.delete(SESSION, "s2")
    await settled()
    assert (await envoy.ask(cookie=envoy.cookie("s2"), x_gate_role="admin")).status.code == code_pb2.PERMISSION_DENIED


async def test_anonymous_caller_is_redirected_with_binding_cookie(envoy):
    answer = await envoy.ask("/x?a=1", accept="text/html")
    assert answer.status.code == code_pb2.PERMISSION_DENIED
    assert answer.denied_response.status.code == 302
    headers = denied(answer)
    assert headers["location"].startswith("https://auth.example.com/.gate/sign_in?")
    assert headers["set-cookie"].startswith("__Host-_gate_signin_")
    assert "content-length" not in headers
    script = await envoy.ask("/x", accept="application/json")
    assert script.denied_response.status.code == 401


async def test_denied_caller_gets_reason_as_page_or_json(envoy):
    page = await envoy.ask("/bob", cookie=envoy.cookie(), accept="text/html")
    assert page.denied_response.status.code == 403
    assert Reason.USER_NOT_LISTED.value in page.denied_response.body
    assert denied(page)["content-type"].startswith("text/html")
    data = await envoy.ask("/bob", cookie=envoy.cookie(), accept="application/json")
    assert data.denied_response.body.startswith("{")


@pytest.mark.parametrize(
    ("path", "status"),
    [("/gone", 301), ("/%00", 400), ("/;x/bob", 400), ("/%61", 400), ("/x/../y", 400), ("/.gate/callback/?a=1", 403)],
)
async def test_redirects_and_bad_requests_have_their_answers(envoy, path, status):
    answer = await envoy.ask(path, cookie=envoy.cookie())
    assert answer.denied_response.status.code == status
    assert answer.status.code == code_pb2.PERMISSION_DENIED


async def test_an_unknown_host_is_not_let_through(envoy):
    assert (await envoy.ask(host="unknown.example.com", cookie=envoy.cookie())).denied_response.status.code == 404


async def test_rejects_other_route_than_envoys(envoy):
    routes = envoy.service.routes.routes()
    allowed = await envoy.ask("/", cookie=envoy.cookie(), extensions={ROUTE: routes[-1].id})
    assert allowed.status.code == code_pb2.OK
    for other in (routes[0].id, "policy[0]"):
        refused = await envoy.ask("/", cookie=envoy.cookie(), extensions={ROUTE: other})
        assert refused.denied_response.status.code == 503


async def test_without_broker_only_public_routes_are_allowed(envoy):
    envoy.broker.is_down = True
    assert (await envoy.ask("/", cookie=envoy.cookie())).denied_response.status.code == 503
    assert (await envoy.ask("/public")).status.code == code_pb2.OK


async def test_internal_extensions_of_external_envoy_are_ignored(envoy):
    extensions = {"gate_purpose": "attest", SYNC_TOKEN: "life:99"}
    answer = await envoy.ask("/bob", cookie=envoy.cookie(), extensions=extensions)
    assert answer.denied_response.status.code == 403
    assert added(answer) == {}


@pytest.mark.parametrize("token", ["", "x", BEARER[:-1], BEARER + "x", BEARER.upper()])
async def test_an_envoy_without_its_token_is_answered_nothing(envoy, token):
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await envoy.ask("/public", token=token)
    assert error.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_an_envoy_s_token_opens_no_other_method(envoy):
    for method in ("/databroker.DataBrokerService/GetAll", "/databroker.DataBrokerService/Get"):
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await envoy.channel.unary_unary(method)(b"", metadata=[("authorization", f"Bearer {BEARER}")], timeout=5)
        assert error.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_accepts_token_in_context_extensions(envoy):
    """Envoys of Envoy Gateway: a SecurityPolicy cannot set metadata."""
    answer = await envoy.ask(token="", extensions={"gate_token": BEARER}, cookie=envoy.cookie())
    assert (answer.status.code, added(answer)["x-gate-claim-email"]) == (code_pb2.OK, "ann@corp.com")
    assert BEARER not in str(answer)


@pytest.mark.parametrize(
    ("token", "extensions"),
    [
        ("", {"gate_token": BEARER[:-1]}),
        ("", {"gate_token": ""}),
        ("", {"gate_tokens": BEARER}),
        ("wrong", {"gate_token": BEARER}),
        ("", {"gate_token": BEARER, "gate_route": "x" * 600_000}),
    ],
)
async def test_rejects_envoy_without_valid_token(envoy, token, extensions):
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await envoy.ask("/public", token=token, extensions=extensions)
    assert error.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_a_token_that_the_client_sends_is_not_the_envoy_s(envoy):
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await envoy.ask("/public", token="", gate_token=BEARER, authorization=f"Bearer {BEARER}")
    assert error.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_malformed_question_gets_no_answer(envoy):
    for body in (b"", b"\xff\xff", BEARER.encode()):
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await envoy.channel.unary_unary(CHECK)(body, timeout=5)
        assert error.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_a_token_in_a_question_opens_no_other_method(envoy):
    check_request = pb.CheckRequest()
    check_request.attributes.context_extensions["gate_token"] = BEARER
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await envoy.channel.unary_unary("/databroker.DataBrokerService/Get")(check_request.SerializeToString(), timeout=5)
    assert error.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_invalid_gate_token_is_rejected_despite_extension_token(envoy):
    check_request = pb.CheckRequest()
    check_request.attributes.context_extensions["gate_token"] = BEARER
    call = envoy.channel.unary_unary(CHECK, pb.CheckRequest.SerializeToString, pb.CheckResponse.FromString)
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await call(check_request, metadata=[(TOKEN, "x")], timeout=5)
    assert error.value.code() is grpc.StatusCode.UNAUTHENTICATED


async def test_invalid_gate_token_is_rejected_despite_bearer(envoy):
    call = envoy.channel.unary_unary(CHECK, pb.CheckRequest.SerializeToString, pb.CheckResponse.FromString)
    for token in ("x", SharedSecret([b"y" * 32]).token(CHECK)):
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await call(pb.CheckRequest(), metadata=[(TOKEN, token), ("authorization", f"Bearer {BEARER}")], timeout=5)
        assert error.value.code() is grpc.StatusCode.UNAUTHENTICATED
