"""Signing in as people do, against the running product: real TLS, a real provider, real cookies."""

from urllib.parse import parse_qs, urlsplit

import httpx
import jwt

from authorize.policy.reasons import Reason
from tests.support.development_provider import DevelopmentProvider, pick_user
from tests.support.gate import HTML, RunningGate, follow, sign_in, sign_out
from tests.support.upstream import SampleUpstream


async def to_provider(client: httpx.AsyncClient, url: str) -> httpx.Response:
    return await follow(client, await client.get(url, headers=HTML))


async def test_assertion_has_user_and_host(gate: RunningGate) -> None:
    async with gate.client() as client:
        page = await sign_in(client, gate.url("app.localhost"), "bob")
    claims = jwt.decode(dict(page.json()["headers"])["x-gate-jwt-assertion"], options={"verify_signature": False})
    assert (claims["sub"], claims["email"], claims["groups"]) == ("oidc/bob", "bob@example.com", ["sales"])
    assert (claims["aud"], claims["iss"]) == (f"app.localhost:{gate.port}", f"authenticate.localhost:{gate.port}")


async def test_second_host_causes_no_request_to_the_provider(gate: RunningGate) -> None:
    async with gate.client() as client:
        await sign_in(client, gate.url("app.localhost"), "alice")
        page = await follow(client, await client.get(gate.url("other.localhost", "/x"), headers=HTML))
    assert (page.status_code, page.json()["target"]) == (200, "/x")


async def test_a_route_that_shares_no_domain_with_the_authenticate_host_signs_in_too(gate: RunningGate) -> None:
    async with gate.client() as client:
        page = await sign_in(client, gate.url("elsewhere.test", "/deep?q=1"), "carol")
    assert (page.status_code, page.url.host, page.json()["target"]) == (200, "elsewhere.test", "/deep?q=1")


async def test_parallel_tabs_each_come_back_to_their_own_page(gate: RunningGate) -> None:
    async with gate.client() as client:
        tabs = [await to_provider(client, gate.url("app.localhost", f"/tab/{tab}")) for tab in range(3)]
        pages = [await follow(client, await pick_user(client, tab, "alice")) for tab in reversed(tabs)]
    assert [page.json()["target"] for page in pages] == ["/tab/2", "/tab/1", "/tab/0"]


async def test_a_provider_callback_of_another_browser_yields_no_session(gate: RunningGate) -> None:
    async with gate.client() as attacker, gate.client() as victim:
        provider_page = await to_provider(attacker, gate.url("app.localhost"))
        callback = (await pick_user(attacker, provider_page, "bob")).headers["location"]
        page = await victim.get(callback, headers=HTML)
        assert page.status_code == 400
        after = await victim.get(gate.url("app.localhost"), headers=HTML)
    assert after.status_code == 302


async def test_handoff_of_another_browser_yields_no_session(gate: RunningGate) -> None:
    async with gate.client() as attacker, gate.client() as victim:
        response = await pick_user(attacker, await to_provider(attacker, gate.url("app.localhost")), "bob")
        while "/.gate/callback/" not in response.headers["location"]:
            response = await attacker.send(response.next_request)
        page = await victim.get(response.headers["location"], headers=HTML)
        after = await victim.get(gate.url("app.localhost"), headers=HTML)
    assert (page.status_code, after.status_code) == (400, 302)


async def test_denied_user_sees_the_reason(gate: RunningGate, upstream: SampleUpstream) -> None:
    async with gate.client() as client:
        await sign_in(client, gate.url("app.localhost"), "bob")
        hits = upstream.hits
        page = await follow(client, await client.get(gate.url("engineering.localhost"), headers=HTML))
        script = await client.get(gate.url("engineering.localhost"), headers={"Accept": "application/json"})
    assert page.status_code == script.status_code == 403
    assert Reason.GROUP_NOT_LISTED.value in page.text
    assert Reason.GROUP_NOT_LISTED.value in script.json()["reason"]
    assert script.json()["request_id"] == script.headers["x-request-id"]
    assert upstream.hits == hits
    gate.wait_for_event("request", lambda entry: entry["request_id"] == script.json()["request_id"] and entry["outcome"] == "forbidden")


async def test_each_request_id_has_an_access_line(gate: RunningGate) -> None:
    pages = (
        ("nobody.localhost", "/", 404, "No application"),
        ("app.localhost", "/.gate/nothing", 404, "does not exist"),
        ("app.localhost", "/.gate/jwt", 401, "not signed in"),
        ("app.localhost", "/a%00b", 400, "can't be used: "),
        ("authenticate.localhost", "/oauth2/callback?state=unknown", 400, ""),
    )
    async with gate.client() as client:
        for host, target, status, reason in pages:
            headers = {"Accept": "application/json", "Host": f"{host}:{gate.port}"}
            answer = await client.get(gate.url("app.localhost", target), headers=headers)
            assert answer.status_code == status, answer.text
            wanted = {"request_id": answer.json()["request_id"], "status": status, "reason": answer.json()["reason"]}
            line = gate.wait_for_event("request", lambda entry, wanted=wanted: wanted.items() <= entry.items())
            assert reason in line["reason"]
            assert "unknown" not in str(line)
        await client.get(gate.url("app.localhost", "/ping"))
    assert not [entry for entry in gate.log if entry.get("path") == "/ping"]


async def test_signing_out_ends_every_host_at_once(gate: RunningGate) -> None:
    async with gate.client() as client:
        await sign_in(client, gate.url("app.localhost"), "alice")
        await follow(client, await client.get(gate.url("other.localhost"), headers=HTML))
        await sign_out(client, gate)
        for host in ("app.localhost", "other.localhost"):
            assert (await client.get(gate.url(host), headers=HTML)).status_code == 302
        dashboard = await client.get(gate.url("authenticate.localhost", "/.gate/"), headers={"Accept": "application/json"})
    assert dashboard.status_code == 401


async def test_sign_out_without_the_token_changes_nothing(gate: RunningGate) -> None:
    async with gate.client() as client:
        await sign_in(client, gate.url("app.localhost"), "alice")
        address = gate.url("authenticate.localhost", "/.gate/signout/")
        for attempt in (
            client.get(address),
            client.post(address),
            client.post(address, data={"_gate_csrf": "A" * 86}),
            client.head(address),
        ):
            assert (await attempt).status_code == 400
        assert (await client.get(gate.url("app.localhost"))).status_code == 200


async def test_every_redirect_of_sign_in_stays_on_gate_hosts_or_provider(gate: RunningGate, provider: DevelopmentProvider) -> None:
    async with gate.client() as client:
        response = await client.get(gate.url("app.localhost", "//evil.example/%0d%0aSet-Cookie:x"), headers=HTML)
        assert response.status_code == 400
        response = await client.get(gate.url("app.localhost", "//evil.example/"), headers=HTML)
        locations = []
        while response.next_request is not None:
            locations.append(response.headers["location"])
            response = await client.send(response.next_request)
    gate_value = {f"app.localhost:{gate.port}", f"authenticate.localhost:{gate.port}", urlsplit(provider.url).netloc}
    assert {urlsplit(location).netloc for location in locations} <= gate_value
    (wanted,) = parse_qs(urlsplit(locations[0]).query)["gate_redirect_uri"]
    assert urlsplit(wanted).netloc == f"app.localhost:{gate.port}"


async def test_nothing_secret_is_in_the_log(gate: RunningGate) -> None:
    async with gate.client() as client:
        await sign_in(client, gate.url("app.localhost", "/?password=hunter2"), "alice")
        values = [cookie.value for cookie in client.cookies.jar if cookie.value]
    assert values
    assert not any(value in gate.child.output for value in [*values, "hunter2", gate.builder.settings["cookie_secret"], "not a secret"])
    assert "code=" not in gate.child.output


async def test_unauthenticated_client_cannot_fill_disk_through_gate_pages(gate: RunningGate) -> None:
    """Django gathers a body whole before it knows whose it is, so it is cut before Django."""
    async with gate.client() as client:
        for host in ("authenticate.localhost", "app.localhost"):
            try:
                status = (await client.post(gate.url(host, "/.gate/signout/"), content=b"x" * (4 << 20))).status_code
            except httpx.TransportError:
                continue  # cut while it was still sending
            assert status == 413
            assert (await client.post(gate.url(host, "/.gate/signout/"), content=b"x" * 60_000)).status_code != 413
