"""Headers of a request that an Envoy forwards, and its records; tests/unit/authorize/rpc/test_ext_authz.py sends requests as an Envoy."""

from pathlib import Path
from typing import Any

import pytest

from authorize.ext_authz_types import DeniedResponse, EnvoyRequest, OkResponse
from authorize.service import AuthorizeService
from databroker.replica import Replica
from databroker.store.memory import MemoryStore
from foundation.crypto.signing_key import SigningKey
from foundation.errors import BadRequest
from proxy.planes.ext_authz import ExtAuthzResponder
from proxy.planes.pipeline import AuthorizationPipeline
from proxy.planes.shared_resources import SharedResources
from tests.support.options import make_options
from tests.support.signed_in import sign_in
from tests.unit.authorize.builders import request

Header = tuple[bytes, bytes]
APP = {"from": "https://app.example.com", "to": "http://up"}
POLICY = [
    {**APP, "prefix": "/own/", "allow_any_authenticated_user": True, "cors_allow_preflight": True},
    {**APP, "prefix": "/told/", "allow_any_authenticated_user": True, "identity_headers": "remote-user"},
    {**APP, "allow_public_unauthenticated_access": True},
]


class PolicyClient:
    def __init__(self, directory: Path, **settings: Any):
        self.options, self.broker = make_options(directory, policy=POLICY, **settings), MemoryStore()
        self.seen: list[tuple[str, float, str]] = []
        resources = SharedResources(on_session_activity=lambda *fact: self.seen.append(fact))
        authorize = AuthorizeService(self.options, Replica(self.broker), SigningKey.from_options(self.options))
        self._responder = ExtAuthzResponder(self.options, AuthorizationPipeline(self.options, authorize, resources))

    async def respond(self, *headers: Header, target: str = "/", **more: Any) -> OkResponse | DeniedResponse:
        facts = {name: more.pop(name) for name in ("method", "origin", "access_control_request_method") if name in more}
        cookies = [value for name, value in headers if name == b"cookie"]
        return await self._responder.respond(EnvoyRequest(request(target, **facts), headers, cookies, "192.0.2.1", "", 0.0, **more))

    async def cut(self, *headers: Header, **facts: Any) -> tuple[dict[bytes, bytes], list[bytes]]:
        answer = await self.respond(*headers, **facts)
        assert isinstance(answer, OkResponse)
        return dict(answer.headers_to_set), list(answer.headers_to_remove)


@pytest.fixture
def envoy(tmp_path: Path) -> PolicyClient:
    return PolicyClient(tmp_path)


@pytest.mark.parametrize("name", [b"remote-user", b"Remote_User", b"remote.groups"])
async def test_identity_headers_of_another_route_are_stripped(envoy: PolicyClient, name: bytes) -> None:
    assert (await envoy.cut((name, b"admin")))[1] == [name]


@pytest.mark.parametrize("name", [b"X-Gate-Jwt-Assertion", b"x_gate_claim_email", b"X.Gate.Claim.Groups", b"xgatejwtassertion"])
async def test_every_spelling_of_an_identity_header_is_taken_away(envoy: PolicyClient, name: bytes) -> None:
    assert (await envoy.cut((name, b"forged")))[1] == [name]


async def test_gate_cookies_are_stripped_and_others_forwarded(envoy: PolicyClient) -> None:
    assert await envoy.cut((b"cookie", b"a=b; _gate=x; _gate_csrf=y; c=d")) == ({b"cookie": b"a=b; c=d"}, [])
    assert await envoy.cut((b"cookie", b"_gate=x")) == ({}, [b"cookie"])
    assert await envoy.cut((b"authorization", b"Bearer theirs")) == ({b"authorization": b"Bearer theirs"}, [])
    assert await envoy.cut((b"authorization", b"Bearer gate_at_theirs")) == ({}, [b"authorization"])


async def test_no_credential_goes_with_a_preflight(envoy: PolicyClient) -> None:
    preflight = {"method": "OPTIONS", "origin": b"https://o.example", "access_control_request_method": b"PUT", "target": "/own/"}
    request_headers = ((b"cookie", b"a=b"), (b"authorization", b"Bearer theirs"))
    assert await envoy.cut(*request_headers, **preflight) == ({}, [b"authorization", b"cookie"])


async def test_envoy_headers_stay_and_client_supplied_ones_are_stripped(envoy: PolicyClient) -> None:
    headers = (
        (b"x-forwarded-for", b"10.0.0.1, 192.0.2.1"),
        (b"x-forwarded-proto", b"https"),
        (b"x-request-id", b"1"),
        (b"forwarded", b"x"),
    )
    assert await envoy.cut(*headers) == ({b"x-forwarded-for": b"192.0.2.1"}, [b"forwarded"])
    assert (await envoy.cut((b"x_request_id", b"1"), (b"x-envoy-x", b"1")))[1] == [b"x-envoy-x", b"x_request_id"]


async def test_a_request_without_one_reading_or_by_another_route_is_refused(envoy: PolicyClient) -> None:
    for more, status in (({"parse_error": BadRequest("the path is odd")}, 400), ({"route_id": "another"}, 503)):
        answer = await envoy.respond(**more)
        assert isinstance(answer, DeniedResponse)
        assert answer.status == status


async def test_contact_is_displayed_on_envoy_pages(tmp_path: Path) -> None:
    envoy = PolicyClient(tmp_path, support_contact="help@corp.com")
    answer = await envoy.respond((b"accept", b"text/html"), parse_error=BadRequest("the path is odd"))
    assert isinstance(answer, DeniedResponse)
    assert b'href="mailto:help@corp.com?subject=' in answer.body


async def test_a_session_was_seen_where_its_request_may_pass(envoy: PolicyClient) -> None:
    ann = await sign_in(envoy.broker, envoy.options)
    cookie = (b"cookie", ann.cookie("app.example.com").encode())
    for more in ({"target": "/.gate/x"}, {"route_id": "another"}, {"target": "/own/?gate_session=x"}):
        assert isinstance(await envoy.respond(cookie, **{"target": "/own/", **more}), DeniedResponse)
    assert envoy.seen == []
    assert isinstance(await envoy.respond(cookie, target="/own/"), OkResponse)
    assert [(session, host) for session, _, host in envoy.seen] == [(ann.session.id, "app.example.com")]
