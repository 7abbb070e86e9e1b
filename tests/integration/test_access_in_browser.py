"""Access for a while as people ask for it and answer: refused, asked, approved and in, on a phone and on a desk, without a script."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.support import accessibility_checks
from tests.support.accessibility_checks import errors, findings
from tests.support.browser import Browser, headless_browser
from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import GateBuilder, RunningGate
from tests.support.upstream import SampleUpstream

WAGES = "wages.localhost"
IN_ADMIN = "/.gate/admin/authenticate/accessforawhile/"
WHY = "The year's end: <b>wages</b> of " + "a-word-without-any-blank-in-it-" * 6
KEYS = {
    "approvers": [{"groups": "sales"}],
    "max_duration": "2h",
    "break_glass": {"allowed": [{"groups": "engineering"}], "max_duration": "30m"},
}


@pytest.fixture(scope="module")
def gate(provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGate]:
    """alice: engineering; bob: sales."""
    builder = GateBuilder(provider.url).setting(groups_claim="groups", admin_allowed_users=["bob@example.com"])
    builder.route(WAGES, to=upstream.url, name="wages", title="Wages & more", allowed_groups=["payroll"], access_requests=KEYS)
    builder.route("vault.localhost", to=upstream.url, allowed_groups=["payroll"], access_requests=KEYS)
    with builder.start(tmp_path_factory.mktemp("gate")) as running:
        yield running


@pytest.fixture(scope="module")
def people(gate: RunningGate, provider: DevelopmentProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Browser]]:
    with ExitStack() as stack:
        browsers = {}
        for name in ("alice", "bob"):
            directory = tmp_path_factory.mktemp(name)
            browser = browsers[name] = stack.enter_context(headless_browser(directory, trusted_spki=gate.certificates.spki_hash))
            browser.sign_in(provider.url, gate.url(WAGES), name)
        yield browsers


def page(gate: RunningGate) -> str:
    return gate.url(gate.builder.authenticate_host, "/.gate/access")


def test_from_a_refusal_to_the_application_and_out_again(gate: RunningGate, people: dict[str, Browser]) -> None:
    alice, bob = people["alice"], people["bob"]
    alice.open(gate.url(WAGES))
    assert "You don't have access" in alice.text
    found = findings(alice, "access-refused")
    alice.click('a[href*="/.gate/access?route="]')
    alice.wait_for_url(page(gate))
    assert "Request access to Wages & more" in alice.text
    assert "Use emergency access" in alice.text
    found += findings(alice, "access-form")
    alice.find("#why").send_keys(WHY)
    alice.submit('button[value="ask"]')
    alice.wait_for_url(page(gate))
    assert "Your requests" in alice.text
    found += findings(alice, "access-asked")
    bob.open(gate.url(gate.builder.authenticate_host, IN_ADMIN))
    assert "<b>wages</b>" in bob.text
    found += findings(bob, "in-admin-waiting", accessibility_checks.IN_ADMIN, may_scroll=True)
    with bob.without_scripts():
        bob.open(page(gate))
        assert "alice@example.com requests Wages & more for 15 minutes" in bob.text
        assert "<b>wages</b>" in bob.text
    bob.open(page(gate))
    found += findings(bob, "access-waiting")
    with bob.without_scripts():
        bob.submit('button[value="approve"]')
        assert "alice@example.com: Wages & more, until" in bob.text
    alice.open(gate.url(WAGES))
    assert "You don't have access" not in alice.text
    bob.open(gate.url(gate.builder.authenticate_host, IN_ADMIN))
    found += findings(bob, "in-admin-given", accessibility_checks.IN_ADMIN, may_scroll=True)
    alice.open(page(gate))
    found += findings(alice, "access-given")
    bob.open(page(gate))
    found += findings(bob, "access-given-by")
    bob.submit('button[aria-label*="Wages"]')
    alice.open(gate.url(WAGES))
    assert "You don't have access" in alice.text
    assert not found, "\n".join(found)
    assert [error for each in (alice, bob) for error in errors(each) if "403" not in error] == []


def test_break_glass_access_with_warning(gate: RunningGate, people: dict[str, Browser]) -> None:
    alice = people["alice"]
    alice.open(gate.url("vault.localhost"))
    alice.click('a[href*="/.gate/access?route="]')
    alice.find("#glass-why").send_keys("the vault is on fire")
    alice.submit('button[value="break_glass"]')
    assert "Granted by alice@example.com (break-glass): the vault is on fire" in alice.text
    entry = gate.wait_for_event("break-glass access used")
    assert entry["level"] == "warning"
    alice.open(gate.url("vault.localhost"))
    assert "You don't have access" not in alice.text
    bob = people["bob"]
    with bob.without_scripts():
        bob.open(gate.url(gate.builder.authenticate_host, IN_ADMIN))
        bob.submit('button[aria-label*="vault"]')
        assert "The access was revoked." in bob.text
        alice.open(gate.url("vault.localhost"))
        assert "You don't have access" in alice.text
