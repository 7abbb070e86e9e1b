"""Remembered consents: for the same user, client, resource and scopes, and never for a client that anyone can publish."""

from dataclasses import replace
from pathlib import Path

import pytest

from authenticate.oauth.consents import LIFETIME, Consents
from authenticate.oauth.oauth_client import OAuthClient, Registration
from authorize.protected_resources import ProtectedResources
from databroker.records import CONSENT, SessionRecord
from databroker.store.memory import MemoryStore
from tests.support.agents import OTHER_RESOURCE, REDIRECT_URI, RESOURCE, ROUTES
from tests.support.options import make_options

CLIENT = OAuthClient("ticket-agent", "Ticket agent", (REDIRECT_URI,), Registration.CONFIGURED)
ALICE = SessionRecord("id", "oidc/alice", "alice", "oidc", 1.0, 2.0, issuer="https://idp.example.com")
SCOPES = ("tickets:read",)


@pytest.fixture
def resources(tmp_path: Path) -> ProtectedResources:
    return ProtectedResources(make_options(tmp_path, policy=ROUTES).policy)


async def test_consent_covers_what_was_consented_to(resources: ProtectedResources) -> None:
    now = [1000.0]
    consents = Consents(MemoryStore(lambda: now[0]), lambda: now[0])
    resource, other = resources.find(RESOURCE), resources.find(OTHER_RESOURCE)
    assert resource is not None
    assert other is not None
    assert not await consents.covers(ALICE, CLIENT, resource, SCOPES)
    await consents.record(ALICE, CLIENT, resource, SCOPES)
    assert await consents.covers(ALICE, CLIENT, resource, SCOPES)
    assert await consents.covers(ALICE, CLIENT, resource, ())
    for session, client, where, scopes in (
        (ALICE, CLIENT, resource, ("tickets:write",)),
        (ALICE, CLIENT, other, SCOPES),
        (ALICE, replace(CLIENT, client_id="other"), resource, SCOPES),
        (replace(ALICE, user_id="oidc/bob"), CLIENT, resource, SCOPES),
        (replace(ALICE, issuer="https://other.example.com"), CLIENT, resource, SCOPES),
        (ALICE, replace(CLIENT, registration=Registration.METADATA_DOCUMENT), resource, SCOPES),
    ):
        assert not await consents.covers(session, client, where, scopes)
    now[0] += LIFETIME
    assert not await consents.covers(ALICE, CLIENT, resource, SCOPES)


async def test_forgotten_and_never_recorded(resources: ProtectedResources) -> None:
    store = MemoryStore(lambda: 1000.0)
    consents = Consents(store, lambda: 1000.0)
    resource = resources.find(RESOURCE)
    assert resource is not None
    await consents.record(ALICE, CLIENT, resource, SCOPES)
    await consents.forget(ALICE, CLIENT.client_id, RESOURCE)
    assert not await consents.covers(ALICE, CLIENT, resource, SCOPES)
    await consents.record(ALICE, replace(CLIENT, registration=Registration.METADATA_DOCUMENT), resource, SCOPES)
    assert await store.page(CONSENT, "", 10) == []
