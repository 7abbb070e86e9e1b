"""Why was Bob refused?  The decision log, explanations and shadow over the running product, and the admin's pages in a real browser."""

import asyncio
import json
from pathlib import Path

import httpx
import pytest
import yaml

from authorize.policy.reasons import Reason
from tests.support.browser import headless_browser
from tests.support.children import wait_until
from tests.support.development_provider import DevelopmentProvider
from tests.support.fork_server import run
from tests.support.gate import HTML, GateBuilder, RunningGate, follow, sign_in
from tests.support.upstream import SampleUpstream

SHADOW = {"mode": "shadow", "deny": {"groups": "sales"}}
LOG = "/.gate/admin/authorize/loggeddecision/"


@pytest.fixture(scope="module")
def own_gate(provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path_factory: pytest.TempPathFactory):
    builder = (
        GateBuilder(provider.url)
        .route(
            "app.localhost", to=upstream.url, allow_any_authenticated_user=True, policy=[{"mode": "shadow", "deny": {"groups": "sales"}}]
        )
        .route("wages.localhost", to=upstream.url, allowed_groups=["payroll"], name="Wages")
        .setting(groups_claim="groups", admin_allowed_users=["alice@example.com"])
    )
    with builder.start(tmp_path_factory.mktemp("gate")) as running:
        yield running


async def explanation(client: httpx.AsyncClient, gate: RunningGate, **query: str) -> httpx.Response:
    """The JSON; a decision is written down a moment after it was made."""
    async with asyncio.timeout(20):
        while True:
            answer = await client.get(gate.url("authenticate.localhost", LOG + "explain.json"), params=query)
            if answer.status_code != 404:
                return answer
            await asyncio.sleep(0.05)


async def manage(gate: RunningGate, *arguments: object) -> str:
    done = await asyncio.to_thread(run, "manage.py", *map(str, arguments))
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_a_refusal_is_explained_by_its_request_id_to_administrators_only(own_gate: RunningGate) -> None:
    gate = own_gate
    async with gate.client() as bob, gate.client() as alice, gate.client() as anonymous:
        page = await sign_in(bob, gate.url("wages.localhost", "/q3?token=s3cret"), "bob")
        request_id = page.headers["x-request-id"]
        assert page.status_code == 403
        assert request_id in page.text
        assert "/.gate/admin/" not in page.text
        assert (await sign_in(alice, gate.url("authenticate.localhost", LOG), "alice")).status_code == 200
        found = (await explanation(alice, gate, request=request_id)).json()
        for stranger in (bob, anonymous):
            refused = await stranger.get(gate.url("authenticate.localhost", LOG + "explain.json"), params={"request": request_id})
            assert refused.status_code == 403
            assert "wages" not in refused.text
        own_page = await follow(alice, await alice.get(gate.url("wages.localhost"), headers=HTML))
        assert own_page.status_code == 403
        assert f"{LOG}explain/?request={own_page.headers['x-request-id']}" in own_page.text
    assert (found["outcome"], found["route_name"], found["user"]["email"]) == ("forbidden", "Wages", "bob@example.com")
    (rule,) = found["rules"]
    assert (rule["actual"], rule["expected"], rule["decisive"]) == ("sales", "one of payroll", True)
    assert {record["record"] for record in found["data"]} >= {"session", "user"}
    assert "s3cret" not in json.dumps(found)
    received = await manage(gate, "explainaccess", "--request", request_id, "-config", gate.config_file)
    assert "one of payroll" in received


async def test_shadow_rule_is_logged_and_does_not_deny(own_gate: RunningGate) -> None:
    async with own_gate.client() as bob:
        assert (await sign_in(bob, own_gate.url("app.localhost"), "bob")).status_code == 200
    event = own_gate.wait_for_event("shadow decision")
    assert (event["outcome"], event["enforced"], event["user_id"]) == ("forbidden", "allowed", "oidc/bob")


async def test_a_changed_policy_is_replayed(own_gate: RunningGate, tmp_path: Path) -> None:
    async with own_gate.client() as bob, own_gate.client() as alice:
        page = await sign_in(bob, own_gate.url("wages.localhost"), "bob")
        await sign_in(alice, own_gate.url("authenticate.localhost", LOG), "alice")
        await explanation(alice, own_gate, request=page.headers["x-request-id"])
    changed = yaml.safe_load(own_gate.config_file.read_text())
    changed["policy"][1]["allowed_groups"] = ["sales"]
    new = own_gate.config_file.with_name("new.yaml")
    new.write_text(yaml.safe_dump(changed))
    output = await manage(own_gate, "replaypolicy", "-config", new)
    assert "Newly allowed:\n  Wages  bob@example.com" in output


async def test_the_pages_in_a_browser(own_gate: RunningGate, tmp_path: Path) -> None:
    gate = own_gate
    async with gate.client() as bob:
        page = await sign_in(bob, gate.url("wages.localhost"), "bob")
    request_id = page.headers["x-request-id"]
    await asyncio.to_thread(look_at_the_pages, gate, tmp_path, request_id)


def look_at_the_pages(gate: RunningGate, profile: Path, request_id: str) -> None:
    with headless_browser(profile, trusted_spki=gate.certificates.spki_hash) as browser:
        browser.open(gate.url("authenticate.localhost", LOG))
        browser.click('button[value="alice"]')
        browser.wait_for_url(gate.url("authenticate.localhost", LOG))
        browser.picture("decision-log")
        assert "explain a request" in browser.text.lower()
        browser.open(gate.url("authenticate.localhost", f"{LOG}?q=bob"))
        assert "bob@example.com" in browser.text
        browser.submit(".timeline a.asked")
        assert "How to get access" in browser.text
        browser.picture("decision")

        def is_explained() -> bool:  # the log is written by and by
            browser.open(gate.url("authenticate.localhost", f"{LOG}explain/?request={request_id}"))
            return Reason.GROUP_NOT_LISTED.value in browser.text

        wait_until(is_explained, "the last decision is in the log")
        browser.find("#url").send_keys(gate.url("wages.localhost", "/x"))
        browser.find("#user").send_keys("bob@example.com")
        browser.click("#invented input[type=submit]")
        browser.wait_for_url(gate.url("authenticate.localhost", f"{LOG}explain/?url="))
        assert "one of payroll" in browser.text
        browser.picture("explanation")
