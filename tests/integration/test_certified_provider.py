"""A sign-in through an independent, certified provider by the whole product: PKCE, issuer parameter, consent."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from tests.support.certified_provider import CLIENT_ID, CLIENT_SECRET, OPEN_REQUESTS, CertifiedProvider, why_not_here
from tests.support.gate import GateBuilder, RunningGate, follow

pytestmark = pytest.mark.skipif(bool(why_not_here()), reason=why_not_here())


WAYS = {
    "pushed": {},
    "pushed, or not at all": {"pushedAuthorizationRequests": {"enabled": True, "requirePushedAuthorizationRequests": True}},
    "in the open": OPEN_REQUESTS,
}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    """How the request reaches the provider."""
    return request.param


@pytest.fixture
def gate(tmp_path: Path, way: str) -> Iterator[RunningGate]:
    builder = GateBuilder("http://set.below.invalid")
    with CertifiedProvider(builder.url(builder.authenticate_host, "/oauth2/callback"), features=WAYS[way]) as provider:
        builder.setting(idp_provider_url=provider.url, idp_client_id=CLIENT_ID, idp_client_secret=CLIENT_SECRET, groups_claim="groups")
        builder.route("app.localhost", to="http://127.0.0.1:9", allowed_users=["alice@corp.example"])
        with builder.start(tmp_path) as running:
            yield running


async def test_alice_signs_in_with_provider_claims(gate: RunningGate) -> None:
    async with gate.client() as client:
        page = await follow(client, await client.get(gate.url(gate.builder.authenticate_host, "/.gate/"), headers={"Accept": "text/html"}))
        assert 'name="sub" value="alice"' in page.text
        page = await follow(client, await client.post(page.url, data={"sub": "alice"}))
        assert page.status_code == 200
        own = await client.get(gate.url(gate.builder.authenticate_host, "/.gate/sessions"), headers={"Accept": "text/html"})
        for text in ("Alice", "alice@corp.example", "oidc/alice", "engineering"):
            assert text in own.text
        _sign_out_leads_to_the_provider(await _sign_out(client, page))
        again = await client.get(gate.url(gate.builder.authenticate_host, "/.gate/"), headers={"Accept": "application/json"})
        assert again.status_code == 401


async def _sign_out(client: httpx.AsyncClient, page: httpx.Response) -> httpx.Response:
    token = page.text.partition('name="_gate_csrf" value="')[2].partition('"')[0]
    return await client.post(page.url.join("/.gate/signout/"), data={"_gate_csrf": token})


def _sign_out_leads_to_the_provider(response: httpx.Response) -> None:
    location = urlsplit(response.headers["location"])
    assert location.path == "/session/end"
    assert parse_qs(location.query)["id_token_hint"]


async def test_signed_userinfo_signs_her_in(tmp_path: Path) -> None:
    builder = GateBuilder("http://set.below.invalid")
    callback = builder.url(builder.authenticate_host, "/oauth2/callback")
    with CertifiedProvider(callback, features={"jwtUserinfo": {"enabled": True}}, userinfo_signed_response_alg="RS256") as provider:
        builder.setting(idp_provider_url=provider.url, idp_client_id=CLIENT_ID, idp_client_secret=CLIENT_SECRET, groups_claim="groups")
        with builder.start(tmp_path) as gate:
            async with gate.client() as client:
                assert (await picked(client, await at_the_provider(gate, client))).status_code == 200
                own = await client.get(gate.url(builder.authenticate_host, "/.gate/sessions"), headers={"Accept": "text/html"})
                assert "alice@corp.example" in own.text


async def at_the_provider(gate: RunningGate, client: httpx.AsyncClient) -> httpx.URL:
    """Where the browser is sent to sign in."""
    response = await client.get(gate.url(gate.builder.authenticate_host, "/.gate/"), headers={"Accept": "text/html"})
    while response.next_request is not None and response.next_request.url.path != "/auth":
        response = await client.send(response.next_request)
    assert response.next_request is not None
    return response.next_request.url


async def picked(client: httpx.AsyncClient, url: httpx.URL) -> httpx.Response:
    page = await follow(client, await client.get(url))
    is_requested = page.url.path.startswith("/interaction/")  # the provider may remember her
    return await follow(client, await client.post(page.url, data={"sub": "alice"})) if is_requested else page


async def test_removed_request_parameters_are_noticed(gate: RunningGate, way: str) -> None:
    async with gate.client() as client:
        url = await at_the_provider(gate, client)
        if way == "in the open":
            page = await picked(client, url.copy_set_param("scope", "openid"))
            assert page.status_code == 403
            assert "required permission: profile email" in page.text
            assert "fewer scopes than requested" in gate.wait_for_event("sign-in refused")["reason"]
        else:
            assert set(url.params) == {"client_id", "request_uri"}
            # The provider accepts only pushed parameters from the browser, and an invented request belongs to no sign-in attempt.
            redirect_uri = gate.url(gate.builder.authenticate_host, "/oauth2/callback")
            own = {"client_id": CLIENT_ID, "response_type": "code", "scope": "openid", "redirect_uri": redirect_uri, "state": "own"}
            own |= {"nonce": "own", "code_challenge": "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM", "code_challenge_method": "S256"}
            page = await picked(client, url.copy_with(params=own))
            assert page.status_code == 400
        again = await client.get(gate.url(gate.builder.authenticate_host, "/.gate/"), headers={"Accept": "application/json"})
        assert again.status_code == 401
        assert (await picked(client, await at_the_provider(gate, client))).status_code == 200
