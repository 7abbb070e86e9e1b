"""Responses to a front proxy (classes B16, B18, B37, B45); any status other than 2xx keeps a request out."""

import itertools
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from authorize.service import AuthorizeService
from databroker.records import SESSION
from databroker.replica import Replica
from databroker.store.memory import MemoryStore
from foundation.crypto.signing_key import SigningKey
from foundation.errors import BrokerError
from foundation.web.asgi_types import Receive, Send, respond
from proxy.incoming_request import IncomingRequest
from proxy.planes.forward_auth import FRONT_PROXY_NAMES
from proxy.planes.pipeline import AuthorizationPipeline
from proxy.planes.shared_resources import SharedResources
from proxy.reserved_paths import RequestHandler
from proxy.rewriting.reserved_headers import fold, is_reserved_header
from proxy.service import ProxyService
from tests.support.asgi import NAVIGATION, SCRIPT, Answer, chunked_receive, http_scope, incoming_from
from tests.support.internal_headers import dropped_names
from tests.support.options import make_options
from tests.support.signed_in import SignedIn, sign_in

FORWARD = "http://forward.example.com"
APP = "https://app.example.com"
TRUSTED = {"client": "10.0.0.9"}
HANDSHAKE = {"sec-websocket-version": "13", "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ=="}
ROUTES = [
    {"from": APP, "to": "http://127.0.0.1:9", "prefix": "/finance/", "allowed_groups": ["finance"], "pass_identity_headers": True},
    {"from": APP, "to": "http://127.0.0.1:9", "prefix": "/public/", "allow_public_unauthenticated_access": True},
    {"from": APP, "prefix": "/old/", "redirect": {"prefix_rewrite": "/new/"}},
    {"from": APP, "to": "http://127.0.0.1:9", "prefix": "/cors/", "allow_any_authenticated_user": True, "cors_allow_preflight": True},
    {
        "from": APP, "to": "http://127.0.0.1:9", "prefix": "/office/",
        "policy": [{"allow": {"source_ip": {"not_in": ["198.51.100.0/24"]}}}],
    },
    {"from": APP, "to": "http://127.0.0.1:9", "prefix": "/plain/", "allow_any_authenticated_user": True},
    {"from": APP, "to": "http://127.0.0.1:9", "prefix": "/recent/", "allow_any_authenticated_user": True, "max_age": "1h"},
    {
        "from": APP, "to": "http://127.0.0.1:9", "prefix": "/varied/", "allow_any_authenticated_user": True,
        "set_request_headers": {"X-Id": "${request_id}"},
    },
    {"from": APP, "to": "http://127.0.0.1:9", "prefix": "/strong/", "allow_any_authenticated_user": True, "acr_values": ["mfa"]},
    {
        "from": APP, "to": "http://127.0.0.1:9", "prefix": "/cluster/", "allow_any_authenticated_user": True,
        "cluster_service_account_token": "the-cluster-token",
    },
    {
        "from": APP, "to": "http://127.0.0.1:9", "prefix": "/serverless/", "allow_public_unauthenticated_access": True,
        "enable_cloud_serverless_authentication": True,
    },
    {
        "from": APP, "to": "http://127.0.0.1:9", "allow_any_authenticated_user": True, "pass_identity_headers": True,
        "allow_websockets": True, "websocket_origins": ["https://friend.example"],
    },
]  # fmt: skip


@dataclass
class Front:
    options: Any
    broker: MemoryStore
    proxy: ProxyService
    seen: list[tuple[str, float, str]]
    own_pages: list[IncomingRequest]
    own_status: int = 302

    async def ask(self, path: str, **scope: Any) -> Answer:
        answer = Answer()

        async def own_page(incoming: IncomingRequest, receive: Receive, send: Send) -> None:
            self.own_pages.append(incoming)
            await respond(send, self.own_status, [(b"set-cookie", b"_gate=x")], b"a page")

        incoming = self.proxy.build_incoming(http_scope(f"{FORWARD}{path}", **scope))
        assert self.proxy.parse_and_find_handler(incoming) is RequestHandler.FORWARD_AUTH
        await self.proxy.forward_auth(incoming, chunked_receive(), answer.send, own_page)
        assert answer.starts == 1
        return answer

    async def verify(self, target: str, **scope: Any) -> Answer:
        return await self.ask(f"/verify?uri={APP}{target}", **scope)


@asynccontextmanager
async def front_for(directory: Path, **settings: Any) -> AsyncIterator[Front]:
    options = make_options(
        directory, policy=ROUTES, forward_auth_url=FORWARD, trusted_proxies=["10.0.0.0/8"], groups_claim="groups",
        jwt_claims_headers=["email", "nickname"], **settings,
    )  # fmt: skip
    broker = MemoryStore()
    authorize = AuthorizeService(options, Replica(broker), SigningKey.from_options(options))
    seen: list[tuple[str, float, str]] = []
    resources = SharedResources(on_session_activity=lambda *activity: seen.append(activity))
    yield Front(options, broker, ProxyService(options, AuthorizationPipeline(options, authorize, resources), resources), seen, [])
    await resources.upstream_client.close()


@pytest.fixture
async def front(tmp_path: Path) -> AsyncIterator[Front]:
    async with front_for(tmp_path) as ready:
        yield ready


@pytest.fixture
async def ann(front: Front) -> SignedIn:
    return await sign_in(front.broker, front.options)


def cookie(user: SignedIn, *more: str) -> dict[str, str]:
    return {"cookie": "; ".join([*more, user.cookie("app.example.com")])}


async def test_permission_sets_identity_and_replaces_client_claims(front: Front, ann: SignedIn) -> None:
    answer = await front.verify("/page?q=1", headers=cookie(ann, "theirs=1"))
    assert (answer.status, answer.body) == (200, b"")
    assert answer.header("x-gate-claim-email") == "ann@example.com"
    assert answer.header("x-gate-jwt-assertion").count(".") == 2
    assert answer.values("x-gate-claim-nickname") == [""]
    assert answer.values("cookie") == ["theirs=1"]
    assert answer.values("authorization") == [""]
    assert answer.header("cache-control") == "no-store"
    assert [(session_id, host) for session_id, _, host in front.seen] == [("session-of-ann", "app.example.com")]


async def test_root_permits_the_same_as_verify(front: Front, ann: SignedIn) -> None:
    answer = await front.ask(f"/?uri={APP}/page", headers=cookie(ann))
    assert (answer.status, answer.header("x-gate-claim-email")) == (200, "ann@example.com")


@pytest.mark.parametrize(
    ("sent", "restored"),
    [
        ("Basic YTpi", "Basic YTpi"),
        ("Gate token", ""),
        ("Bearer Gate-token", ""),
        ("bearer gate_at_token", ""),
        ("bearer theirs", "bearer theirs"),
    ],
)
async def test_client_authorization_is_restored_and_gate_s_is_not(front: Front, ann: SignedIn, sent: str, restored: str) -> None:
    answer = await front.verify("/page", headers={**cookie(ann), "authorization": sent})
    assert answer.values("authorization") == [restored]


@pytest.mark.parametrize("prefix", ["/cluster/", "/serverless/"])
async def test_verdict_contains_no_gate_credentials(front: Front, ann: SignedIn, prefix: str) -> None:
    for path in ("/verify", "/"):
        answer = await front.ask(f"{path}?uri={APP}{prefix}", headers={"cookie": ann.cookie("app.example.com")})
        assert answer.status == 403
        assert "the-cluster-token" not in str(vars(answer))


async def test_a_route_that_passes_no_identity_gives_empty_values(front: Front, ann: SignedIn) -> None:
    answer = await front.verify("/plain/", headers=cookie(ann))
    assert answer.status == 200
    assert answer.values("x-gate-jwt-assertion") == answer.values("x-gate-claim-email") == [""]


async def test_the_root_leads_a_browser_to_the_sign_in_of_the_route_host(front: Front) -> None:
    answer = await front.ask(f"/?uri={APP}/page?q=1&r=2", headers=NAVIGATION)
    assert answer.status == 302
    assert answer.header("location") == f"{APP}/.gate/sign_in?gate_redirect_uri=https%3A%2F%2Fapp.example.com%2Fpage%3Fq%3D1%26r%3D2"
    assert answer.values("set-cookie") == []


@pytest.mark.parametrize("headers", [SCRIPT, HANDSHAKE, {"content-type": "application/grpc", "accept": "application/json"}])
async def test_the_root_redirects_no_script(front: Front, headers: dict[str, str]) -> None:
    assert (await front.ask(f"/?uri={APP}/page", headers=headers)).status == 401


async def test_refused_is_403_with_the_reason(front: Front, ann: SignedIn) -> None:
    for path in ("/verify", "/"):
        answer = await front.ask(f"{path}?uri={APP}/finance/x", headers={**NAVIGATION, **cookie(ann)})
        assert answer.status == 403
        assert b"ann@example.com" in answer.body
        assert answer.values("x-gate-claim-email") == []


@pytest.mark.parametrize(
    "uri",
    [
        *("", "page", "https://other.example.com/", "http://app.example.com/public/", "https://app.example.com:8443/public/"),
        *(
            "https://u@app.example.com/public/",
            "https://app.example.com/public/../x",
            "https://forward.example.com/public/",
            "https://auth.example.com/",
        ),
    ],
)
async def test_foreign_address_is_refused(front: Front, ann: SignedIn, uri: str) -> None:
    headers = {**NAVIGATION, **cookie(ann)}
    assert (await front.ask(f"/verify?uri={uri}", headers=headers)).status == 403
    assert (await front.ask(f"/?uri={uri}", headers=headers)).status in (400, 403)


@pytest.mark.parametrize("path", ["/foo", "/verify/", "/.gate/callback/", "/robots.txt", "//", "/Verify"])
async def test_other_paths_permit_nothing_even_to_grpc_clients(front: Front, path: str) -> None:
    for headers in (NAVIGATION, {"content-type": "application/grpc"}):
        answer = await front.ask(f"{path}?uri={APP}/public/", headers=headers)
        assert answer.status in (403, 404)


async def test_identity_header_dropped_by_listener_is_not_forwarded(front: Front, ann: SignedIn) -> None:
    for left_out in (b"X_Gate_Claim_Email", b"X_HTTP_Method_Override", b"X_Original_Url", b"X_Forwarded_Host", b"X_Real_Ip"):
        incoming = incoming_from(f"{FORWARD}/verify?uri={APP}/page", headers=cookie(ann))
        incoming.scope["gate.ignored_headers"] = [left_out]
        answer = Answer()
        await front.proxy.forward_auth(incoming, chunked_receive(), answer.send, None)  # type: ignore[arg-type]
        assert answer.status == 403


@pytest.mark.parametrize(
    "name", ["x-http-method-override", "X-HTTP-Verb", "x-method", "x.http.method.override", "x-rewrite-url", "x-script-name"]
)
async def test_a_request_that_steers_the_application_elsewhere_does_not_pass(front: Front, name: str, ann: SignedIn) -> None:
    for target in ("/page", "/public/"):
        assert (await front.verify(target, headers={**cookie(ann), name: "DELETE"})).status == 403


async def test_front_proxy_may_send_only_listed_headers_among_proxy_headers(front: Front, ann: SignedIn) -> None:
    url = f"{APP}/public/x"
    messages = {
        "x-original-url": url, "x-original-uri": "/public/x", "x-forwarded-uri": "/public/x", "x-forwarded-proto": "https",
        "x-forwarded-host": "app.example.com", "x-forwarded-method": "GET", "x-original-method": "GET", "x-forwarded-for": "192.0.2.7",
        "x-forwarded-port": "443", "x-forwarded-prefix": "", "x-forwarded-server": "edge", "x-real-ip": "192.0.2.7",
        "forwarded": "for=192.0.2.7", "x-request-id": "abc",
    }  # fmt: skip
    assert {name.encode() for name in messages} == FRONT_PROXY_NAMES
    assert (await front.verify("/public/x", headers=messages, **TRUSTED)).status == 200
    for name in internal_names() - messages.keys():
        for peer in (TRUSTED, {}):
            answer = await front.verify("/public/x", headers={**cookie(ann), name: "192.0.2.66"}, **peer)
            assert answer.status == 403, name


def internal_names() -> set[str]:
    more = ("x-forwarded-login", "x-forwarded-client-cert", "x-original-forwarded-for", "x-original-host", "x-envoy-original-path", "proxy")
    return {*more, *(name for name in dropped_names() if is_reserved_header(fold(name.encode())))}


@pytest.mark.parametrize("method", ["delete", "Get", "GET "])
async def test_a_method_in_another_spelling_is_refused(front: Front, method: str, ann: SignedIn) -> None:
    for name in ("x-forwarded-method", "x-original-method"):
        for target in ("/page", "/public/"):
            assert (await front.verify(target, headers={**cookie(ann), name: method}, **TRUSTED)).status == 403


@pytest.mark.parametrize("target", ["/public%2F", "/public;/x", "//public/x", "/;x/public/x", "/public/%3F/../page", "//x/public/"])
async def test_path_matching_another_route_by_other_parser_gets_no_permission(front: Front, target: str) -> None:
    for path, status in (("/verify", 403), ("/", 400)):
        answer = await front.ask(f"{path}?uri={quote(f'{APP}{target}', safe='')}")
        assert answer.status == status
        assert b"ambiguous" in answer.body or b"canonical form" in answer.body
        assert b"https://app" not in answer.body


async def test_headers_name_the_url_only_for_trusted_peers(front: Front) -> None:
    headers = {"x-original-url": f"{APP}/public/"}
    assert (await front.ask("/verify", headers=headers, **TRUSTED)).status == 200
    assert (await front.ask("/verify", headers=headers)).status == 403
    assert (await front.verify("/page", headers=headers, **TRUSTED)).status == 403
    assert (await front.verify("/page", headers=headers)).status == 401


async def test_only_a_trusted_peer_can_request_a_preflight(front: Front, ann: SignedIn) -> None:
    headers = {
        "origin": "https://o.example", "access-control-request-method": "PUT", "x-forwarded-method": "OPTIONS", "cookie": "theirs=1",
        "authorization": "Basic YTpi",
    }  # fmt: skip
    passed = await front.verify("/cors/", headers=headers, **TRUSTED)
    assert (passed.status, passed.values("cookie"), passed.values("authorization")) == (200, [""], [""])
    assert (await front.verify("/cors/", headers=headers, method="OPTIONS")).status == 401
    assert (await front.verify("/page", headers=headers, **TRUSTED)).status == 401
    assert (await front.verify("/cors/", headers={**headers, "x-forwarded-method": "GET"}, **TRUSTED)).status == 401


async def test_redirect_route_does_not_open_what_the_front_proxy_serves(front: Front) -> None:
    assert (await front.verify("/old/x", headers=NAVIGATION)).status == 403
    answer = await front.ask(f"/?uri={APP}/old/x?q=1", headers=NAVIGATION)
    assert (answer.status, answer.header("location")) == (301, f"{APP}/new/x?q=1")


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (APP, 200),
        ("https://friend.example", 200),
        ("https://evil.example", 403),
        ("http://app.example.com", 403),
        ("null", 403),
        ("", 403),
        (None, 200),
    ],
)
async def test_a_websocket_opens_for_pages_of_known_origins(front: Front, ann: SignedIn, origin: str | None, status: int) -> None:
    headers = {**cookie(ann), **HANDSHAKE, **({"origin": origin} if origin is not None else {})}
    for upgrade in ({}, {"connection": "Upgrade", "upgrade": "websocket"}):
        assert (await front.verify("/page", headers={**headers, **upgrade})).status == status
    assert (await front.verify("/plain/", headers=headers)).status == 403


async def test_gate_pages_are_served_where_responses_reach_the_browser(front: Front) -> None:
    answer = await front.ask(f"/?uri={APP}/.gate/callback/?gate_session=t", headers=NAVIGATION)
    assert (answer.status, answer.values("set-cookie")) == (302, ["_gate=x"])
    (page,) = front.own_pages
    assert (page.request.host, page.request.path, page.scope["query_string"]) == ("app.example.com", "/.gate/callback/", b"gate_session=t")
    assert page.scope["method"] == "GET"


async def test_successful_gate_page_grants_no_permission(front: Front) -> None:
    front.own_status = 200
    answer = await front.ask(f"/?uri={APP}/.gate/jwt", headers=NAVIGATION)
    assert answer.status == 403
    assert b"a page" not in answer.body


async def test_verify_permits_no_gate_pages(front: Front, ann: SignedIn) -> None:
    for target in ("/.gate/", "/.gate/callback/?gate_session=t", "/.well-known/gate/jwks.json"):
        assert (await front.verify(target, headers=cookie(ann))).status == 403
    post = {"x-forwarded-method": "POST"}
    assert (await front.ask(f"/?uri={APP}/.gate/signout/", headers=post, **TRUSTED)).status == 403
    assert front.own_pages == []


async def test_gate_pages_exist_at_route_hosts_only(front: Front) -> None:
    for host in ("https://unknown.example.com", "https://auth.example.com", "https://forward.example.com"):
        assert (await front.ask(f"/?uri={host}/.gate/callback/", headers=NAVIGATION)).status == 403
    assert front.own_pages == []


async def test_an_unknown_address_is_named_with_its_port(front: Front) -> None:
    """The log line has the host of the front proxy's request, and operators often set a wrong port."""
    answer = await front.ask(f"/verify?uri={APP}:8443/page")
    assert answer.status == 403
    assert b"app.example.com:8443" in answer.body


async def test_cookie_without_session_grants_nothing(front: Front, ann: SignedIn) -> None:
    await front.broker.delete(SESSION, ann.session.id)
    assert (await front.verify("/page", headers=cookie(ann))).status == 401


async def test_without_the_data_broker_it_is_503_and_public_routes_go_on(
    front: Front, ann: SignedIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unreachable(*_: object) -> None:
        raise BrokerError("the data broker is away")

    monkeypatch.setattr(front.broker, "get", unreachable)
    for headers in (cookie(ann), {**cookie(ann), "content-type": "application/grpc"}):
        assert (await front.verify("/page", headers=headers)).status == 503
    assert (await front.verify("/public/", headers=cookie(ann))).status == 200


@pytest.mark.parametrize(("cache", "control"), [("0", "no-store"), ("5s", "private, max-age=5")])
async def test_permission_is_cached_for_the_configured_time(tmp_path: Path, cache: str, control: str) -> None:
    async with front_for(tmp_path, forward_auth_cache=cache) as front:
        ann = await sign_in(front.broker, front.options, auth_time=time.time())
        permitted = await front.verify("/page", headers=cookie(ann))
        refused = [await front.verify("/page", headers=NAVIGATION), await front.verify("/finance/", headers=cookie(ann))]
        passing = [await front.verify(path, headers=cookie(ann)) for path in ("/recent/", "/varied/")]
    assert [(answer.status, answer.header("cache-control")) for answer in passing] == [(200, "no-store")] * 2
    assert permitted.header("cache-control") == control
    assert ("cookie" in "".join(permitted.values("vary"))) == (cache != "0")
    assert [answer.header("cache-control") for answer in refused] == ["no-store", "no-store"]


async def test_permission_is_cached_no_longer_than_its_session(tmp_path: Path) -> None:
    async with front_for(tmp_path, forward_auth_cache="5m") as front:
        ann = await sign_in(front.broker, front.options)
        ending = {**ann.session.to_data(), "expires_at": ann.session.issued_at + 100}
        await front.broker.put(SESSION, ann.session.id, ending, expires=ann.session.issued_at + 100)
        answer = await front.verify("/page", headers=cookie(ann))
    assert 90 <= int(answer.header("cache-control").removeprefix("private, max-age=")) <= 100


@pytest.mark.parametrize(
    ("peer", "forwarded_for", "status"),
    [("10.0.0.1", "203.0.113.9", 200), ("10.0.0.1", "198.51.100.7", 403), ("10.0.0.1", None, 403), ("203.0.113.1", "203.0.113.9", 403)],
    ids=["let in", "not let in", "a silent front proxy", "an untrusted front proxy"],
)
async def test_the_address_is_the_clients_never_the_front_proxys(tmp_path: Path, peer: str, forwarded_for: str | None, status: int) -> None:
    async with front_for(tmp_path, forward_auth_cache="5m") as front:
        answer = await front.verify("/office/", client=peer, headers={} if forwarded_for is None else {"x-forwarded-for": forwarded_for})
    assert answer.status == status
    # The next request may come from elsewhere, or later.
    assert answer.header("cache-control") == "no-store"


async def test_original_method_does_not_affect_response_format(front: Front) -> None:
    answer = await front.verify("/page", headers={"x-forwarded-method": "HEAD"}, **TRUSTED)
    assert answer.status == 401
    assert len(answer.body) == int(answer.header("content-length"))


async def test_no_combination_of_hostile_headers_permits_anything(front: Front) -> None:
    hostile = {
        "content-type": "application/grpc", "x-forwarded-method": "OPTIONS", "upgrade": "websocket", "accept": "application/json",
        "x-original-url": f"{APP}/public/", "x-forwarded-uri": "/public/", "authorization": "Gate x", "cookie": "_gate=" + "A" * 90,
    }  # fmt: skip
    for names in itertools.chain.from_iterable(itertools.combinations(hostile, count) for count in range(len(hostile) + 1)):
        headers = {name: hostile[name] for name in names}
        for path, peer in itertools.product(("/verify", "/"), ({}, TRUSTED)):
            assert (await front.ask(f"{path}?uri={APP}/page", headers=headers, **peer)).status >= 300, headers


async def test_a_weak_sign_in_is_no_permission_and_leads_to_a_stronger_one(front: Front, ann: SignedIn) -> None:
    verdict = await front.verify("/strong/", headers={**NAVIGATION, **cookie(ann)})
    assert verdict.status == 401
    assert verdict.header("www-authenticate").startswith('Bearer realm="gate", error="insufficient_user_authentication"')
    assert verdict.header("www-authenticate").endswith('acr_values="mfa"')
    led = await front.ask(f"/?uri={APP}/strong/", headers={**NAVIGATION, **cookie(ann)})
    assert (led.status, led.header("location").partition("?")[0]) == (302, f"{APP}/.gate/sign_in")
    assert (await front.ask(f"/?uri={APP}/strong/", headers={**SCRIPT, **cookie(ann)})).status == 401
    strong = await sign_in(front.broker, front.options, "bob", acr="mfa")
    assert (await front.verify("/strong/", headers=cookie(strong))).status == 200
