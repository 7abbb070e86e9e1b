"""A cluster and a serverless service receive gate's credentials and no others, or no request at all."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.support.asgi import NAVIGATION
from tests.support.cloud import Cloud
from tests.support.proxied import Proxied, proxied
from tests.support.signed_in import sign_in

URL = "https://app.example.com/api"
TOKEN = "the-cluster-token"
CLUSTER: dict[str, Any] = {"allow_any_authenticated_user": True, "cluster_service_account_token": TOKEN}
SERVERLESS: dict[str, Any] = {"allow_public_unauthenticated_access": True, "enable_cloud_serverless_authentication": True}
PREFLIGHT = {"origin": "https://x.example", "access-control-request-method": "GET", "authorization": "Bearer theirs"}
CLAIMED = {
    "authorization": "Bearer theirs",
    "impersonate-user": "system:admin",
    "impersonate-group": "system:masters",
    "Impersonate_Group": "system:masters",
    "impersonate-uid": "0",
    "impersonate-extra-scopes": "all",
    "x-remote-user": "root",
    "X_Remote_Group": "system:masters",
    "x-serverless-authorization": "Bearer theirs",
    "X_Serverless_Authorization": "Bearer theirs",
    "connection": "authorization, impersonate-user, close",
}


async def as_ann(gate: Proxied, headers: dict[str, str], **scope: Any) -> Any:
    ann = await sign_in(gate.broker, gate.options, groups=("admins", "system:masters"))
    return await gate.send(URL, headers={**headers, "cookie": ann.cookie("app.example.com")}, **scope)


async def test_cluster_receives_gate_token_and_user_despite_client_headers(tmp_path: Path) -> None:
    async with proxied(tmp_path, {**CLUSTER, "set_request_headers": {"X-Remote-User": "root"}}) as gate:
        assert (await as_ann(gate, CLAIMED)).status == 200
        (received,) = gate.canary.requests
    assert received.values(b"authorization") == [b"Bearer the-cluster-token"]
    assert received.values(b"impersonate-user") == [b"ann@example.com"]
    assert received.values(b"impersonate-group") == [b"admins"]
    for name in CLAIMED.keys() - {"authorization", "impersonate-user", "impersonate-group", "Impersonate_Group", "connection"}:
        assert received.values(name.encode()) == []
    assert b"theirs" not in received.head


async def test_legacy_application_receives_gate_password_only(tmp_path: Path) -> None:
    async with proxied(tmp_path, {"allow_any_authenticated_user": True, "basic_auth": {"user": "gate", "password": "pass"}}) as gate:
        assert (await as_ann(gate, {"authorization": "Basic theirs", "Authorization_": "x"})).status == 200
        (received,) = gate.canary.requests
    assert received.values(b"authorization") == [b"Basic Z2F0ZTpwYXNz"]
    assert b"theirs" not in received.head


@pytest.mark.parametrize("name", ["impersonate-user", "Impersonate_Extra.x", "impersonategroup"])
async def test_impersonation_headers_are_stripped_on_every_route(tmp_path: Path, name: str) -> None:
    async with proxied(tmp_path, {"allow_any_authenticated_user": True}) as gate:
        await as_ann(gate, {name: "system:admin", "authorization": "Basic eDp5", "x-remote-user": "theirs"})
        (received,) = gate.canary.requests
    assert b"system:admin" not in received.head
    assert (received.values(b"authorization"), received.values(b"x-remote-user")) == ([b"Basic eDp5"], [b"theirs"])


async def test_cluster_receives_no_unauthenticated_impersonation(tmp_path: Path) -> None:
    """The policy lets everybody of this network pass: without a person the request would be the service account's own."""
    policy = [{"allow": {"http_method": "GET"}}]
    async with proxied(tmp_path, {"cluster_service_account_token": TOKEN, "policy": policy}) as gate:
        assert (await gate.send(URL, headers=NAVIGATION)).status == 403
        assert gate.canary.connections == 0
        assert (await as_ann(gate, {})).status == 200
        (received,) = gate.canary.requests
    assert received.values(b"impersonate-user") == [b"ann@example.com"]


async def test_preflight_is_forwarded_without_gate_credentials(tmp_path: Path) -> None:
    for route in ({**CLUSTER, "cors_allow_preflight": True}, {**SERVERLESS, "allow_public_unauthenticated_access": False}):
        async with Cloud() as cloud, proxied(tmp_path, {**route, "cors_allow_preflight": True}) as gate:
            assert (await as_ann(gate, PREFLIGHT, method="OPTIONS")).status == 200
            (received,) = gate.canary.requests
            assert cloud.requested_audiences == []
        for name in (b"authorization", b"impersonate-user", b"impersonate-group"):
            assert received.values(name) == []


async def test_serverless_upstream_receives_gate_identity_only(tmp_path: Path) -> None:
    async with Cloud() as cloud, proxied(tmp_path, SERVERLESS, cloud_serverless_metadata_url=cloud.url) as gate:
        for _ in range(3):
            assert (await gate.send(URL, headers=CLAIMED)).status == 200
        assert cloud.requested_audiences == [gate.canary.url.replace("http:", "https:")]
        for received in gate.canary.requests:
            assert received.values(b"authorization") == [b"Bearer " + cloud.tokens[0].encode()]
            assert received.values(b"x-serverless-authorization") == []


async def test_without_a_token_there_is_no_request(tmp_path: Path) -> None:
    async with Cloud() as cloud, proxied(tmp_path, SERVERLESS, cloud_serverless_metadata_url=cloud.url) as gate:
        cloud.answer = (500, b"")
        answers = await asyncio.gather(*(gate.send(URL, headers=CLAIMED) for _ in range(5)))
        assert [answer.status for answer in answers] == [503] * 5
        assert len(cloud.requested_audiences) == 1
        assert gate.canary.connections == 0


async def test_global_setting_spares_routes_that_opt_out(tmp_path: Path) -> None:
    public = {"allow_public_unauthenticated_access": True}
    routes = {**public, "prefix": "/no", "enable_cloud_serverless_authentication": False}, {**public, "prefix": "/"}
    async with Cloud() as cloud:
        settings = {"enable_cloud_serverless_authentication": True, "cloud_serverless_metadata_url": cloud.url}
        async with proxied(tmp_path, *routes, **settings) as gate:
            await gate.send("https://app.example.com/no", headers={"authorization": "Bearer theirs"})
            await gate.send("https://app.example.com/yes", headers={"authorization": "Bearer theirs"})
            spared, sent = gate.canary.requests
    assert spared.values(b"authorization") == [b"Bearer theirs"]
    assert sent.values(b"authorization") == [b"Bearer " + cloud.tokens[0].encode()]


async def test_redirect_discloses_no_token(tmp_path: Path) -> None:
    route = {"redirect": {"host_redirect": "new.example.com"}}
    async with (
        Cloud() as cloud,
        proxied(tmp_path, route, enable_cloud_serverless_authentication=True, cloud_serverless_metadata_url=cloud.url) as gate,
    ):
        assert (await gate.send(URL)).status == 301
        assert cloud.requested_audiences == []
