"""The admin, entered by single sign-on."""

import asyncio
import re

from tests.support.admin import visible_text
from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import HTML, RunningGate, follow, sign_in, sign_out


def admin(gate: RunningGate, path: str = "") -> str:
    return gate.url("authenticate.localhost", f"/.gate/admin/{path}")


async def test_administrator_sees_sessions_users_groups_and_routes(gate: RunningGate) -> None:
    async with gate.client() as client:
        index = await sign_in(client, admin(gate), "alice")
        assert index.status_code == 200
        links = set(re.findall(r'href="(/\.gate/admin/[a-z]+/[a-z]+/)"', index.text))
        assert len(links) >= 4
        pages = {link: await client.get(gate.url("authenticate.localhost", link), headers=HTML) for link in links}
    assert {page.status_code for page in pages.values()} == {200}
    everything = " ".join(page.text for page in pages.values())
    assert "Sessions now" in visible_text(index)
    assert "People Page Users Sessions Connected accounts Groups" in visible_text(index)
    modules = [f'href="/.gate/admin/{module}/"' for module in ("authorize", "databroker", "proxy")]
    assert [module for module in modules if module in everything + index.text] == []
    assert "alice@example.com" in everything
    assert "engineering.localhost" in everything


async def test_groups_that_a_claim_names_are_listed_with_where_they_come_from(gate: RunningGate, provider: DevelopmentProvider) -> None:
    origin = f"the claim “groups” of {provider.url}"
    async with gate.client() as client, gate.client() as bob:
        await sign_in(client, admin(gate), "alice")
        await sign_in(bob, gate.url("app.localhost"), "bob")
        async with asyncio.timeout(20):
            text = ""
            while not all(f"{group} - - {origin} 1" in text for group in ("engineering", "sales")):
                text = visible_text(await client.get(admin(gate, "databroker/group/"), headers=HTML))
                await asyncio.sleep(0.05)
        one = visible_text(await client.get(admin(gate, "databroker/group/sales/change/"), headers=HTML))
    assert "Groups are read-only here" in text
    assert "bob@example.com" in one
    assert "alice@example.com" not in one.partition("Members")[2]


async def test_another_user_is_denied(gate: RunningGate) -> None:
    async with gate.client() as client:
        page = await sign_in(client, admin(gate), "bob")
        assert page.status_code == 403
        assert "not an administrator" in page.text
        assert (await client.get(admin(gate, "databroker/session/"), headers=HTML)).status_code in (302, 403)


async def test_ending_a_session_in_the_admin_ends_it_on_its_host(gate: RunningGate) -> None:
    async with gate.client() as carol, gate.client() as alice:
        await sign_in(carol, gate.url("app.localhost"), "carol")
        await sign_in(alice, admin(gate), "alice")
        dashboard = await carol.get(gate.url("authenticate.localhost", "/.gate/"), headers={"Accept": "application/json"})
        is_redirect = dashboard.is_redirect
        if is_redirect:
            dashboard = await follow(carol, dashboard)
        session_id = dashboard.json()["session"]["id"]
        listing = await alice.get(admin(gate, "databroker/session/"), headers=HTML)
        (token,) = set(re.findall(r'name="csrfmiddlewaretoken" value="([^"]+)"', listing.text))
        names = re.findall(r'<option value="([a-z_]*end[a-z_]*)"', listing.text)
        assert names, "the list of sessions offers to end them"
        data = {"action": names[0], "_selected_action": session_id, "csrfmiddlewaretoken": token}
        headers = {**HTML, "Referer": admin(gate), "Origin": gate.url("authenticate.localhost", "")}
        response = await alice.post(admin(gate, "databroker/session/"), data=data, headers=headers)
        assert response.status_code in (200, 302)
        assert (await carol.get(gate.url("app.localhost"), headers=HTML)).status_code == 302


async def test_the_admin_ends_with_the_session_that_opened_it(gate: RunningGate) -> None:
    async with gate.client() as client:
        await sign_in(client, admin(gate), "alice")
        await sign_out(client, gate)
        assert (await client.get(admin(gate, "databroker/session/"), headers=HTML)).status_code == 302


async def test_the_admin_s_cookie_opens_nothing_without_the_session_that_it_came_with(gate: RunningGate) -> None:
    async def cookies_of(name: str, url: str) -> dict[str, str]:
        async with gate.client() as client:
            await sign_in(client, url, name)
            return {each.name: each.value or "" for each in client.cookies.jar if each.domain == "authenticate.localhost"}

    entered = await cookies_of("alice", admin(gate))
    (opener,) = {name for name in entered if name.endswith("_gate_admin")}
    app = gate.url("app.localhost")
    callers = (({}, 302), (await cookies_of("bob", app), 302), (await cookies_of("alice", app), 302), (entered, 200))
    async with gate.client() as client:
        for cookies, status in callers:
            sent = "; ".join(f"{name}={value}" for name, value in {**cookies, opener: entered[opener]}.items())
            assert (await client.get(admin(gate, "databroker/session/"), headers={**HTML, "Cookie": sent})).status_code == status


async def test_admin_log_out_reports_that_gate_session_continues(gate: RunningGate) -> None:
    async with gate.client() as client:
        index = await sign_in(client, admin(gate), "alice")
        (token,) = set(re.findall(r'name="csrfmiddlewaretoken" value="([^"]+)"', index.text))
        headers = {**HTML, "Referer": admin(gate), "Origin": gate.url("authenticate.localhost", "")}
        left = await client.post(admin(gate, "logout/"), data={"csrfmiddlewaretoken": token}, headers=headers)
        assert "still signed in" in left.text
        assert 'href="/.gate/signout/"' in left.text
        assert "alice@example.com" in (await client.get(gate.url("authenticate.localhost", "/.gate/"), headers=HTML)).text


async def test_the_admin_exists_at_the_authenticate_host_only(gate: RunningGate) -> None:
    async with gate.client() as client:
        await sign_in(client, gate.url("app.localhost"), "alice")
        assert (await client.get(gate.url("app.localhost", "/.gate/admin/"), headers=HTML)).status_code == 404


async def test_the_admin_pages_have_their_styles_and_a_strict_policy(gate: RunningGate) -> None:
    async with gate.client() as client:
        index = await sign_in(client, admin(gate), "alice")
        assert "default-src 'none'" in index.headers["content-security-policy"]
        assert 'rel="icon"' in index.text
        for asset in re.findall(r'(?:href|src)="(/\.gate/static/[^"]+)"', index.text):
            assert (await client.get(gate.url("authenticate.localhost", asset))).status_code == 200


async def test_a_forged_admin_form_is_refused(gate: RunningGate) -> None:
    async with gate.client() as client:
        await sign_in(client, admin(gate), "alice")
        response = await client.post(admin(gate, "databroker/session/"), data={"action": "end_sessions"}, headers=HTML)
    assert response.status_code == 403


async def test_next_never_leads_away_from_the_admin(gate: RunningGate) -> None:
    async with gate.client() as client:
        await sign_in(client, admin(gate), "alice")
        hostile = ("https://evil.example/", "//evil.example/", "/\\evil.example/", "javascript:alert(1)", "https://]/", "//[")
        for target in (*hostile, "/.gate/signout/"):
            response = await client.get(admin(gate, "login/"), params={"next": target}, headers=HTML)
            assert response.headers["location"] == "/.gate/admin/"
