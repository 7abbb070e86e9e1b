"""The whole product with two providers, where people choose; who they are then is in test_several_providers_on_planes.py."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from authorize.policy.reasons import Reason
from examples.demo.people import ALICE
from tests.support.accessibility_checks import errors, findings
from tests.support.browser import Browser, headless_browser
from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import AUTHENTICATE_HOST, GateBuilder, RunningGate
from tests.support.provider_selection import CORP_ONLY, IDP_KEYS, OPEN, entry, signed_in
from tests.support.upstream import SampleUpstream

LONG = "Partners with a name of sixty characters, as somebody has it"
SVG = b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"><rect width="8" height="8" rx="2" fill="#c33"/></svg>'


@pytest.fixture(scope="module")
def providers() -> Iterator[tuple[DevelopmentProvider, DevelopmentProvider]]:
    """Both providers have a user alice with the address alice@example.com."""
    with DevelopmentProvider() as corp, DevelopmentProvider([replace(ALICE, full_name="Alice of the partner")]) as partner:
        yield corp, partner


@pytest.fixture(scope="module")
def entries(providers: tuple[DevelopmentProvider, DevelopmentProvider]) -> list[dict[str, Any]]:
    corp, partner = providers
    return [
        entry("corp", corp, "example.com", title="Employees", icon="people", groups_claim="groups"),
        entry("partner", partner, "partner.example", title=LONG, icon="logo.svg"),
    ]


@pytest.fixture
def gate(entries: list[dict[str, Any]], upstream: SampleUpstream, tmp_path: Path) -> Iterator[RunningGate]:
    (tmp_path / "logo.svg").write_bytes(SVG)
    builder = GateBuilder("https://not-used.invalid").setting(**dict.fromkeys(IDP_KEYS), identity_providers=entries)
    builder.route(OPEN, to=upstream.url, allow_any_authenticated_user=True, pass_identity_headers=True)
    builder.route(CORP_ONLY, to=upstream.url, allow_any_authenticated_user=True, identity_providers=["corp"])
    with builder.start(tmp_path) as running:
        yield running


async def test_no_secret_and_no_token_is_in_the_log(gate: RunningGate, providers: tuple[DevelopmentProvider, DevelopmentProvider]) -> None:
    async with gate.client() as client:
        await signed_in(gate, client, "corp", providers[0])
    assert "not a secret" not in json.dumps(gate.log)


@pytest.fixture
def browser(gate: RunningGate, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with headless_browser(tmp_path_factory.mktemp("profile"), trusted_spki=gate.certificates.spki_hash) as running:
        yield running


def test_users_choose_on_phone_and_desktop(
    browser: Browser, gate: RunningGate, providers: tuple[DevelopmentProvider, DevelopmentProvider]
) -> None:
    corp, partner = providers
    browser.open(gate.url(OPEN))
    browser.wait_for_url(gate.url(AUTHENTICATE_HOST, "/.gate/sign_in"))
    assert findings(browser, "choose") == []
    assert errors(browser) == []
    browser.find("#address").send_keys("somebody@nowhere.example")
    browser.submit("form button")
    assert "Choose one below" in browser.text
    browser.picture("choose-unknown")
    browser.find("#address").send_keys("alice@example.com")
    browser.click("form button")
    browser.wait_for_url(corp.url)
    browser.open(gate.url(OPEN))
    browser.click(".choices li:nth-child(2) a")
    browser.wait_for_url(partner.url)
    browser.click('button[value="alice"]')
    browser.wait_for_url(gate.url(OPEN))
    browser.open(gate.url(CORP_ONLY))
    assert Reason.OTHER_PROVIDER.value in browser.text
    browser.picture("choose-refused")
