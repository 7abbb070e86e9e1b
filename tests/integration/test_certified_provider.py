"""A sign-in through a certified provider that nobody here wrote, by the whole product: PKCE, issuer parameter, consent and all."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from tests.support.certified_provider import CLIENT_ID, CLIENT_SECRET, CertifiedProvider, why_not_here
from tests.support.gate import GateBuilder, RunningGate, follow

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(why_not_here()), reason=why_not_here())]


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[RunningGate]:
    builder = GateBuilder("http://set.below.invalid")
    with CertifiedProvider(builder.url(builder.authenticate_host, "/oauth2/callback")) as provider:
        builder.setting(idp_provider_url=provider.url, idp_client_id=CLIENT_ID, idp_client_secret=CLIENT_SECRET, groups_claim="groups")
        builder.route("app.localhost", to="http://127.0.0.1:9", allowed_users=["alice@corp.example"])
        with builder.start(tmp_path) as running:
            yield running


async def test_alice_signs_in_and_is_who_the_provider_says(gate: RunningGate) -> None:
    async with gate.client() as client:
        page = await follow(client, await client.get(gate.url(gate.builder.authenticate_host, "/.gate/"), headers={"Accept": "text/html"}))
        assert 'name="sub" value="alice"' in page.text
        page = await follow(client, await client.post(page.url, data={"sub": "alice"}))
        assert page.status_code == 200
        for text in ("Alice", "alice@corp.example", "oidc/alice", "engineering"):
            assert text in page.text
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
