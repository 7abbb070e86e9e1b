"""The admin over live sessions: where people are, all of a person's sessions ended at once, and a log of it that stays."""

import asyncio
import json
import re

import httpx
import pytest

from databroker.audit_log import AuditAction
from tests.support.fork_server import run
from tests.support.gate import HTML, RunningGate, follow, sign_in


def admin(gate: RunningGate, path: str = "") -> str:
    return gate.url("authenticate.localhost", f"/.gate/admin/{path}")


async def post(client: httpx.AsyncClient, gate: RunningGate, page: str, **form: str) -> httpx.Response:
    """As the page's own form would, with its token."""
    displayed = await client.get(admin(gate, page), headers=HTML)
    token = re.findall(r'name="csrfmiddlewaretoken" value="([^"]+)"', displayed.text)[0]
    origin = {"Origin": gate.url("authenticate.localhost", "")}
    return await client.post(admin(gate, page), data={"csrfmiddlewaretoken": token, **form}, headers={**HTML, **origin})


async def rows(client: httpx.AsyncClient, gate: RunningGate, page: str, **query: str) -> list[str]:
    """The rows of the list, each as its text."""
    displayed = await client.get(admin(gate, page), params=query, headers=HTML)
    assert displayed.status_code == 200
    table = displayed.text.partition('<table id="result_list">')[2].partition("</table>")[0].partition("<tbody>")[2]
    found = re.findall(r"(?s)<tr>.*?</tr>", table)
    return [" ".join(re.sub(r"<[^>]*>", " ", row).split()) for row in found]


async def test_admin_shows_last_seen(gate: RunningGate) -> None:
    async with gate.client() as carol, gate.client() as alice:
        await sign_in(carol, gate.url("other.localhost"), "carol")
        await sign_in(alice, admin(gate), "alice")
        async with asyncio.timeout(20):
            while not any(f"other.localhost:{gate.port}" in row for row in await rows(alice, gate, "databroker/session/", q="carol")):
                await asyncio.sleep(0.05)


async def test_all_sessions_of_one_user_end(gate: RunningGate) -> None:
    async with gate.client() as desk, gate.client() as phone, gate.client() as bob, gate.client() as alice:
        for browser, user in ((desk, "carol"), (phone, "carol"), (bob, "bob")):
            assert (await sign_in(browser, gate.url("app.localhost"), user)).status_code == 200
        await sign_in(alice, admin(gate), "alice")
        ended = await post(alice, gate, "databroker/user/", action="end_all", _selected_action="oidc/carol")
        assert ended.status_code == 302
        after = [(await browser.get(gate.url("app.localhost"), headers=HTML)).status_code for browser in (desk, phone, bob)]
        assert after == [302, 302, 200]
        assert await rows(alice, gate, "databroker/session/", q="carol") == []
        received, *_ = await rows(alice, gate, "databroker/auditentry/", q=AuditAction.END_ALL_SESSIONS)
    assert "alice@example.com" in received
    assert "carol@example.com" in received
    line = gate.wait_for_event("admin action", lambda entry: entry["action"] == AuditAction.END_ALL_SESSIONS)
    assert (line["actor"], line["object_id"]) == ("alice@example.com", "oidc/carol")


async def test_the_audit_log_can_not_be_changed_by_those_it_is_about(gate: RunningGate) -> None:
    async with gate.client() as carol, gate.client() as alice:
        await sign_in(carol, gate.url("app.localhost"), "carol")
        await sign_in(alice, admin(gate), "alice")
        await post(alice, gate, "databroker/user/", action="end_all", _selected_action="oidc/carol")
        displayed = await alice.get(admin(gate, "databroker/auditentry/"), headers=HTML)
        entry = re.findall(r"/databroker/auditentry/(\d+)/change/", displayed.text)[0]
        before = await rows(alice, gate, "databroker/auditentry/")
        assert "delete_selected" not in displayed.text
        for page in ("change", "delete"):
            refused = await alice.post(
                admin(gate, f"databroker/auditentry/{entry}/{page}/"),
                data={"csrfmiddlewaretoken": await token_of(alice, gate), "post": "yes", "object_repr": "x"},
                headers={**HTML, "Origin": gate.url("authenticate.localhost", "")},
            )
            assert refused.status_code == 403
            assert "CSRF" not in refused.text
        assert await rows(alice, gate, "databroker/auditentry/") == before


async def token_of(client: httpx.AsyncClient, gate: RunningGate) -> str:
    displayed = await client.get(admin(gate, "databroker/session/"), headers=HTML)
    return re.findall(r'name="csrfmiddlewaretoken" value="([^"]+)"', displayed.text)[0]


@pytest.mark.parametrize(
    ("user", "groups", "outcome", "status"),
    [("alice", ["engineering"], "allowed", 200), ("bob", ["sales"], "forbidden", 403), (None, [], "sign in", 302)],
)
async def test_explain_matches_running_gate(gate: RunningGate, user: str | None, groups: list[str], outcome: str, status: int) -> None:
    url = gate.url("engineering.localhost", "/a")
    name = ["--user", f"{user}@example.com", *(part for group in groups for part in ("--group", group))] if user else []
    async with gate.client() as client:
        if user:
            await sign_in(client, gate.url("app.localhost"), user)
            answer = await follow(client, await client.get(url, headers=HTML))
        else:
            answer = await client.get(url, headers=HTML)
    done = await asyncio.to_thread(run, "manage.py", "explainaccess", "-config", gate.config_file, url, *name, "--json")
    assert done.returncode == 0, done.stderr
    assert (json.loads(done.stdout)["outcome"], answer.status_code) == (outcome, status)
