"""A sign-out at a certified provider ends the gate session and open websockets, and a sign-out at gate ends the provider's session."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.certified_provider import CLIENT_ID, CLIENT_SECRET, CertifiedProvider, why_not_here
from tests.support.cookies import client_cookies
from tests.support.gate import HTML, GateBuilder, RunningGate, follow
from tests.support.websockets import RawWebSocket, SocketUpstream

pytestmark = pytest.mark.skipif(bool(why_not_here()), reason=why_not_here())
APP = "app.localhost"


@contextmanager
def gate_behind_provider(directory: Path, **client: Any) -> Iterator[tuple[RunningGate, SocketUpstream, CertifiedProvider]]:
    """`client` is gate's client registration at the provider; each path becomes a URL of the authenticate host."""
    builder = GateBuilder("http://set.below.invalid")

    def registered(value: Any) -> Any:
        if isinstance(value, list):
            return [registered(each) for each in value]
        return builder.url(builder.authenticate_host, value) if isinstance(value, str) else value

    metadata = {name: registered(value) for name, value in client.items()}
    redirect_uri = builder.url(builder.authenticate_host, "/oauth2/callback")
    with SocketUpstream() as upstream, CertifiedProvider(redirect_uri, **metadata) as provider:
        builder.setting(idp_provider_url=provider.url, idp_client_id=CLIENT_ID, idp_client_secret=CLIENT_SECRET)
        builder.setting(signout_redirect_url=registered("/.gate/signed_out"))
        builder.route(APP, to=upstream.url, allow_any_authenticated_user=True, allow_websockets=True)
        with builder.start(directory) as running:
            yield running, upstream, provider


@pytest.fixture(scope="module", params=[True, False], ids=["by sid", "by sub"])
def gate(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningGate, CertifiedProvider]]:
    output = {"backchannel_logout_uri": "/.gate/backchannel_logout", "backchannel_logout_session_required": request.param}
    output |= {"post_logout_redirect_uris": ["/.gate/signed_out"]}
    with gate_behind_provider(tmp_path_factory.mktemp("gate"), **output) as (running, _, provider):
        yield running, provider


async def sign_in(gate: RunningGate, client: httpx.AsyncClient, user: str) -> str:
    """Returns the cookie of the application's host."""
    page = await follow(client, await client.get(gate.url(APP, "/not-here"), headers=HTML))
    await follow(client, await client.post(page.url, data={"sub": user}))
    return client_cookies(client, APP)


async def sign_out_at(provider: CertifiedProvider, client: httpx.AsyncClient) -> None:
    page = await client.get(f"{provider.url}/session/end")
    (proof,) = re.findall(r'name="xsrf" value="([^"]+)"', page.text)
    response = await client.post(f"{provider.url}/session/end/confirm", data={"xsrf": proof, "logout": "yes"})
    assert response.status_code == 303


async def test_signing_out_at_the_provider_ends_everything_here(gate: tuple[RunningGate, CertifiedProvider]) -> None:
    running, provider = gate
    async with running.client() as alice, running.client() as bob:
        cookie, _ = await sign_in(running, alice, "alice"), await sign_in(running, bob, "bob")
        with RawWebSocket(running.port, tls=running.certificates.client_context(), server_name=APP) as websocket:
            assert websocket.open(f"{APP}:{running.port}", "/hold", f"Cookie: {cookie}").status == 101
            await sign_out_at(provider, alice)
            # The provider has gate's response by now, so each further request is denied.
            for host, path in ((APP, "/.gate/jwt"), (running.builder.authenticate_host, "/.gate/")):
                assert (await alice.get(running.url(host, path), headers={"Accept": "application/json"})).status_code == 401
            websocket.socket.settimeout(10)
            assert websocket.frame().close_code == 1008
        assert (await bob.get(running.url(APP, "/.gate/jwt"))).status_code == 200


async def test_logout_token_ends_the_sessions_it_names(gate: tuple[RunningGate, CertifiedProvider], request: pytest.FixtureRequest) -> None:
    running, provider = gate
    async with running.client() as one, running.client() as other:
        for client in (one, other):
            await sign_in(running, client, "carol")
        await sign_out_at(provider, one)
        assert (await one.get(running.url(APP, "/.gate/jwt"))).status_code == 401
        stays = "sid" in request.node.name
        assert (await other.get(running.url(APP, "/.gate/jwt"))).status_code == (200 if stays else 401)


async def test_the_endpoint_is_on_the_authenticate_host_only(gate: tuple[RunningGate, CertifiedProvider]) -> None:
    running, _ = gate
    async with running.client() as client:
        form = {"logout_token": "x.y.z"}
        elsewhere = await client.post(running.url(APP, "/.gate/backchannel_logout"), data=form)
        here = await client.post(running.url(running.builder.authenticate_host, "/.gate/backchannel_logout"), data=form)
        large = await client.post(
            running.url(running.builder.authenticate_host, "/.gate/backchannel_logout"), data={"logout_token": "x" * 100_000}
        )
    assert (elsewhere.status_code, here.status_code, large.status_code) == (404, 400, 413)
    assert here.json()["error"] == "invalid_request"
    assert "can't be read" in here.json()["error_description"]


@pytest.mark.parametrize(
    ("host", "path", "status"), [(APP, "/.gate/jwt", 401), ("", "/.gate/signed_out", 200)], ids=["a link's", "gate's own page"]
)
async def test_signing_out_here_leads_by_the_provider_to_where_it_should(
    gate: tuple[RunningGate, CertifiedProvider], host: str, path: str, status: int
) -> None:
    running, provider = gate
    async with running.client() as client:
        await sign_in(running, client, f"dave-{status}-{host}")  # a logout by sub may still be under way for another
        dashboard = await client.get(running.url(running.builder.authenticate_host, "/.gate/"), headers=HTML)
        (token,) = re.findall(r'name="_gate_csrf" value="([^"]+)"', dashboard.text)
        target = running.url(host or running.builder.authenticate_host, path)
        form = {"_gate_csrf": token, "gate_redirect_uri": target if host else ""}
        page = await follow(client, await client.post(running.url(running.builder.authenticate_host, "/.gate/signout/"), data=form))
        # The provider knows the page that we name, and asks the person whether they mean it.
        assert (str(page.url).partition("?")[0], page.status_code) == (f"{provider.url}/session/end", 200)
        (proof,) = re.findall(r'name="xsrf" value="([^"]+)"', page.text)
        back = await follow(client, await client.post(f"{provider.url}/session/end/confirm", data={"xsrf": proof, "logout": "yes"}))
        assert (str(back.url).partition("?")[0], back.status_code) == (target, status)
