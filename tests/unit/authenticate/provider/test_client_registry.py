"""Each of several providers has a separate client, and data of one is never sent to another."""

import time
from pathlib import Path

import pytest

from authenticate.provider.client_registry import ProviderClients
from authenticate.provider.provider_errors import SubjectMismatch
from databroker.records import SessionRecord
from tests.support.options import make_options
from tests.support.providers import a_provider

TENANT = "11111111-2222-3333-4444-555555555555"
MICROSOFT = "https://login.microsoftonline.com"
CORP, PARTNER = "https://idp.corp.example", "https://idp.partner.example"


@pytest.fixture
def clients(tmp_path: Path) -> ProviderClients:
    made = ProviderClients(make_options(tmp_path), time.time)
    each = (a_provider("corp", "oidc", CORP), a_provider("partner", "oidc", PARTNER), a_provider("all", "azure", ""))
    made.configured = {one.id: one for one in each}
    return made


def session(provider: str, issuer: str) -> SessionRecord:
    return SessionRecord("s1", f"{provider}/1", "1", provider, 1000.0, 2000.0, issuer=issuer)


async def test_client_is_created_on_first_use(clients: ProviderClients) -> None:
    assert clients.active == ()
    corp = clients.get("corp")
    assert corp is not None
    assert clients.get("corp") is corp
    assert clients.active == (corp,)
    assert clients.get("another") is None
    await clients.close()


async def test_each_client_is_registered_by_itself(clients: ProviderClients) -> None:
    credentials = {client.provider.id: (client.client_id, client.provider.client_secret.reveal()) for client in clients.all()}
    assert credentials == {id: (f"gate-at-{id}", f"secret-of-{id}") for id in ("corp", "partner", "all")}
    await clients.close()


@pytest.mark.parametrize(
    ("issuer", "id"),
    [
        (CORP, "corp"),
        (PARTNER, "partner"),
        (f"{MICROSOFT}/{TENANT}/v2.0", "all"),
        (f"{CORP}/", None),
        (f"{MICROSOFT}/common/v2.0", None),
        ("", None),
    ],
)
async def test_an_issuer_is_of_one_provider(clients: ProviderClients, issuer: str, id: str | None) -> None:
    client = clients.for_issuer(issuer)
    assert (client.provider.id if client is not None else None) == id
    await clients.close()


async def test_session_has_the_client_of_its_issuer_or_none(clients: ProviderClients) -> None:
    assert clients.for_session(session("corp", CORP)) is clients.get("corp")
    assert clients.for_session(session("all", f"{MICROSOFT}/{TENANT}/v2.0")) is clients.get("all")
    for recorded in (session("corp", PARTNER), session("partner", CORP), session("gone", CORP), session("oidc", CORP), session("corp", "")):
        with pytest.raises(SubjectMismatch, match="no longer configured"):
            clients.for_session(recorded)
    await clients.close()
