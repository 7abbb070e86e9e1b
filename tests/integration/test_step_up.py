"""A route that asks for a stronger sign-in, a certified provider that can give one, and a browser between them."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from cryptography import x509

from tests.support.browser import headless_browser
from tests.support.certified_provider import CLIENT_ID, CLIENT_SECRET, OPEN_REQUESTS, CertifiedProvider, why_not_here
from tests.support.certs import spki_hash
from tests.support.children import clean_environment
from tests.support.consent import allow_device, device_code_of
from tests.support.fork_server import python
from tests.support.gate import GateBuilder, RunningGate, follow
from tests.support.tunnels import TunnelClient, obtain_token
from tests.support.upstream import SampleUpstream, TcpUpstream

pytestmark = pytest.mark.skipif(bool(why_not_here()), reason=why_not_here())
HTML, SCRIPT = {"Accept": "text/html"}, {"Accept": "application/json", "Sec-Fetch-Mode": "cors"}
APP, WAGES, NEW = "app.localhost", "wages.localhost", "new.localhost"


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningGate, CertifiedProvider]]:
    builder = GateBuilder("http://set.below.invalid")
    redirect_uri = builder.url(builder.authenticate_host, "/oauth2/callback")
    with (
        SampleUpstream() as upstream,
        TcpUpstream(is_echo=True) as echo,
        CertifiedProvider(redirect_uri, features=OPEN_REQUESTS) as provider,
    ):
        builder.setting(idp_provider_url=provider.url, idp_client_id=CLIENT_ID, idp_client_secret=CLIENT_SECRET)
        all_users = {"to": upstream.url, "allow_any_authenticated_user": True}
        builder.route(APP, **all_users, prefix="/wages/", acr_values=["mfa"]).route(APP, **all_users)
        builder.policy.append(
            {"from": f"tcp+https://{WAGES}:7", "to": echo.url, "allow_any_authenticated_user": True, "acr_values": ["mfa"]}
        )
        builder.route(WAGES, **all_users, acr_values=["mfa"]).route(NEW, **all_users, max_age="15m")
        with builder.start(tmp_path_factory.mktemp("gate")) as running:
            yield running, provider


async def sign_in(gate: RunningGate, client: httpx.AsyncClient, host: str, **user: str) -> httpx.Response:
    page = await follow(client, await client.get(gate.url(host, "/"), headers=HTML))
    return await follow(client, await client.post(page.url, data=user))


async def test_a_weak_sign_in_is_led_to_a_stronger_one_and_comes_back(gate: tuple[RunningGate, CertifiedProvider]) -> None:
    running, provider = gate
    async with running.client() as client:
        assert (await sign_in(running, client, APP, sub="alice", acr="pwd")).status_code == 200
        # The provider remembers her and would say `pwd` again, so it is pressed: its own page asks her.
        requested = await follow(client, await client.get(running.url(WAGES, "/"), headers=HTML))
        assert (str(requested.url).startswith(provider.url), requested.status_code) == (True, 200)
        there = await follow(client, await client.post(requested.url, data={"sub": "alice", "acr": "mfa"}))
        assert (str(there.url), there.status_code) == (running.url(WAGES, "/"), 200)
        assert (await client.get(running.url(WAGES, "/"), headers=SCRIPT)).status_code == 200
        assert (await client.get(running.url(APP, "/"), headers=SCRIPT)).status_code == 200


async def test_client_gets_insufficient_scope(gate: tuple[RunningGate, CertifiedProvider]) -> None:
    running, _ = gate
    async with running.client() as client:
        await sign_in(running, client, APP, sub="carol", acr="pwd")
        refused = await client.get(running.url(APP, "/wages/"), headers=SCRIPT)
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"].startswith('Bearer realm="gate", error="insufficient_user_authentication"')
        assert refused.headers["www-authenticate"].endswith('acr_values="mfa"')
        assert (await client.get(running.url(APP, "/"), headers=SCRIPT)).status_code == 200


async def test_failed_step_up_shows_a_page(gate: tuple[RunningGate, CertifiedProvider]) -> None:
    running, _ = gate
    async with running.client() as client:
        page = await sign_in(running, client, WAGES, sub="dave", acr="pwd")
        # Asked for more, the provider asks him again; he gives no more.
        received = await follow(client, await client.post(page.url, data={"sub": "dave", "acr": "pwd"}))
        assert received.status_code == 403
        assert "stronger sign-in method" in received.text
        assert f"Try again: {running.url(WAGES, '/')}" in received.text
        assert (await client.get(running.url(WAGES, "/"), headers=SCRIPT)).status_code == 401


async def test_max_age_leads_to_a_new_sign_in(gate: tuple[RunningGate, CertifiedProvider]) -> None:
    running, _ = gate
    async with running.client() as client:
        there = await sign_in(running, client, NEW, sub="erin", acr="pwd")
        assert (str(there.url), there.status_code) == (running.url(NEW, "/"), 200)


async def test_unknown_session_age_leads_to_provider_with_max_age(
    gate: tuple[RunningGate, CertifiedProvider],
) -> None:
    """This provider says `auth_time` only when it is asked: who signed in elsewhere first, or edits the request, has no age."""
    running, provider = gate
    async with running.client() as client:
        await sign_in(running, client, APP, sub="grace", acr="pwd")
        assert (await client.get(running.url(NEW, "/"), headers=SCRIPT)).status_code == 401
        question = await until_the_provider(client, await client.get(running.url(NEW, "/"), headers=HTML), provider)
        edited = question.copy_remove_param("max_age").copy_remove_param("claims").copy_remove_param("prompt")
        refused = await follow(client, await client.get(edited))
        assert refused.status_code == 403
        assert "did not report" in refused.text
        running.wait_for_event("sign-in refused", lambda entry: "auth_time" in entry["reason"])
        assert (await client.get(running.url(NEW, "/"), headers=SCRIPT)).status_code == 401
        there = await follow(client, await client.get(running.url(NEW, "/"), headers=HTML))
        assert (str(there.url), there.status_code) == (running.url(NEW, "/"), 200)


async def until_the_provider(client: httpx.AsyncClient, response: httpx.Response, provider: CertifiedProvider) -> httpx.URL:
    """Where the browser would go at the provider."""
    for _ in range(5):
        url = response.url.join(response.headers["location"])
        if str(url).startswith(provider.url):
            return url
        response = await client.get(url, headers=HTML)
    raise AssertionError("never led to the provider")


async def test_tunnel_step_up_in_browser(gate: tuple[RunningGate, CertifiedProvider], tmp_path: Path) -> None:
    """The test's browser acts for the command; a session that is too weak, and its token, grant nothing."""
    running, _ = gate
    async with running.client() as client:
        await sign_in(running, client, APP, sub="frank", acr="pwd")
        weak = await obtain_token(client, running.url(WAGES, ""), "frank")
        with TunnelClient(running.port, WAGES) as early:
            assert early.open(f"{WAGES}:7", f"Authorization: Gate {weak}") == 401
        command = (
            "manage.py",
            "tunnel",
            f"{WAGES}:7",
            "--url",
            running.url(WAGES, ""),
            "--ca",
            running.certificates.authority,
            "--no-browser",
        )
        with python(*command, environment=clean_environment(HOME=str(tmp_path), XDG_CACHE_HOME="")) as tunnel:
            port = int(tunnel.wait_for_line("listening on").split(" for ")[0].rpartition(":")[2])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            page_url, code = device_code_of(await asyncio.to_thread(tunnel.wait_for_line, "enter the code"))
            await allow_device(client, page_url, code, sub="frank", acr="mfa")
            writer.write(b"wages")
            assert await asyncio.wait_for(reader.readexactly(5), 15) == b"wages"
            writer.close()


def test_step_up_in_browser(gate: tuple[RunningGate, CertifiedProvider], tmp_path: Path) -> None:
    running, provider = gate
    trusted = spki_hash(x509.load_pem_x509_certificate(running.certificates.certificate.read_bytes()))
    with headless_browser(tmp_path / "profile", trusted_spki=trusted) as browser:
        browser.open(running.url(APP, "/"))
        browser.wait_for_url(provider.url)
        browser.click('button[name="sub"]')
        browser.wait_for_url(running.url(APP, "/"))
        browser.open(running.url(WAGES, "/"))
        browser.wait_for_url(provider.url)
        browser.click('button[name="sub"]')  # weak again
        browser.wait_for_url(running.url(running.builder.authenticate_host, "/oauth2/callback"))
        assert "stronger sign-in method" in browser.text
        browser.picture("step-up-too-weak")
        browser.click('a[href^="https://wages.localhost"]')
        browser.wait_for_url(provider.url)
        browser.click('button[value="alice mfa"]')
        browser.wait_for_url(running.url(WAGES, "/"))
        assert browser.driver.execute_script("return fetch('/').then(answer => answer.status)") == 200
        assert browser.driver.execute_script(f"return fetch('{running.url(APP, '/')}', {{mode: 'no-cors'}}).then(() => true)")
