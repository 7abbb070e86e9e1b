"""Programmatic login against the running product: a program, its person with a real browser, and the token at the application."""

import json
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import httpx

from tests.support.browser import Browser, headless_browser
from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import RunningGate
from tests.support.upstream import SampleUpstream


def carriers(token: str) -> list[tuple[str, dict[str, str]]]:
    return [
        ("/x?a=1", {"Authorization": f"Gate {token}"}),
        ("/x?a=1", {"Authorization": f"Bearer Gate-{token}"}),
        (f"/x?gate_session={token}&a=1", {}),
    ]


async def statuses(program: httpx.AsyncClient, gate: RunningGate, token: str, host: str = "app.localhost") -> set[int]:
    return {(await program.get(gate.url(host, target), headers=headers)).status_code for target, headers in carriers(token)}


def allow(browser: Browser, gate: RunningGate, provider: DevelopmentProvider, url: str, back: str) -> str:
    """The person's part; returns the token that the program was called with."""
    browser.open(url)
    browser.wait_for_url(provider.url)
    browser.click('button[value="alice"]')
    browser.wait_for_url(gate.url("authenticate.localhost", "/.gate/program"))
    for displayed in ("alice@example.com", f"app.localhost:{gate.port}", urlsplit(back).netloc):
        assert displayed in browser.text
    browser.picture("program")
    browser.click("main form button")
    browser.wait_for_url(back)
    query = parse_qs(urlsplit(json.loads(browser.text)["target"]).query)
    assert query["state"] == ["mine"]
    return query["gate_jwt"][0]


async def test_programmatic_token_ends_with_sign_out(
    gate: RunningGate, provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path: Path
) -> None:
    # The upstream plays the program's own server on this machine: it shows what it was called with.
    back = f"http://localhost:{urlsplit(upstream.url).port}/cb?state=mine"
    async with gate.client() as program:
        answer = await program.get(gate.url("app.localhost", f"/.gate/api/v1/login?gate_redirect_uri={quote(back, safe='')}"))
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/plain; charset=utf-8")
        with headless_browser(tmp_path / "profile", trusted_spki=gate.certificates.spki_hash) as browser:
            token = allow(browser, gate, provider, answer.text, back)
            for target, headers in carriers(token):
                page = await program.get(gate.url("app.localhost", target), headers=headers)
                received = dict(page.json()["headers"])
                assert (page.json()["target"], received["x-gate-claim-email"]) == ("/x?a=1", "alice@example.com")
                assert "authorization" not in received
                assert token not in page.text
            assert await statuses(program, gate, token, "other.localhost") == {401}
            assert await statuses(program, gate, token[:-2]) == {401}
            browser.forget_everything()
            # As from a mail or the address bar: the browser has no session yet.
            browser.open(gate.url("app.localhost", f"/x?gate_session={token}&a=1"))
            browser.wait_for_url(provider.url)
            assert "redirect_uri" in browser.url
            assert token not in browser.driver.page_source
            browser.click('button[value="alice"]')
            browser.wait_for_url(gate.url("app.localhost", "/x?a=1"))
            # From this other browser of the same person, the session that the program acts by ends as well.
            browser.open(gate.url("authenticate.localhost", "/.gate/signout/"))
            browser.click("main form button[name=gate_everywhere]")
            browser.wait_for_url(provider.url)
        assert await statuses(program, gate, token) == {401}
    assert token not in gate.child.output
