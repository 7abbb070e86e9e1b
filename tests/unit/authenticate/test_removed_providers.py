"""Sessions of a provider that was removed or renamed end with the configuration that does not know it."""

from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from authenticate.removed_providers import RemovedProviders
from config.settings.identity_providers import PLACEHOLDERS
from databroker.records import SESSION, SessionRecord
from databroker.store.memory import MemoryStore
from foundation.errors import BrokerError
from tests.support.options import make_options

CORP, PARTNER = "https://idp.corp.example", "https://idp.partner.example"


def entry(id: str, url: str) -> dict[str, Any]:
    return {"id": id, "provider": "oidc", "url": url, "client_id": "gate", "client_secret": "secret", "domains": []}


def several(directory: Path, *entries: dict[str, Any]) -> Any:
    return make_options(directory, **{**dict.fromkeys(PLACEHOLDERS), "identity_providers": list(entries)})


@pytest.fixture
async def broker() -> MemoryStore:
    broker = MemoryStore()
    for number in range(40):
        for provider, issuer in (("corp", CORP), ("partner", PARTNER)):
            session = SessionRecord(f"{provider}-{number}", f"{provider}/{number}", str(number), provider, 1000.0, 9e9, issuer=issuer)
            await broker.put(SESSION, session.id, session.to_data())
    await broker.put(SESSION, "broken", {"provider": 7})
    return broker


async def left(broker: MemoryStore) -> set[str]:
    return {record.id.partition("-")[0] for record in await broker.page(SESSION, "", 1000)}


@pytest.mark.parametrize(
    ("entries", "stay"),
    [
        ((entry("corp", CORP), entry("partner", PARTNER)), {"corp", "partner"}),
        ((entry("corp", CORP),), {"corp"}),
        ((entry("corp", CORP), entry("renamed", PARTNER)), {"corp"}),
        ((entry("corp", PARTNER), entry("partner", CORP)), set()),
        ((entry("corp", CORP), entry("partner", "https://idp.newer.example")), {"corp"}),
    ],
)
async def test_session_of_removed_provider_ends_and_is_reported(
    tmp_path: Path, broker: MemoryStore, entries: tuple[dict[str, Any], ...], stay: set[str]
) -> None:
    with capture_logs() as logged:
        await RemovedProviders(several(tmp_path, *entries), broker).run()
    assert await left(broker) == {*stay, "broken"}
    ended = {entry["provider"]: entry["sessions"] for entry in logged if entry["event"] == "sessions of removed identity provider ended"}
    assert ended == dict.fromkeys({"corp", "partner"} - stay, 40)


@pytest.mark.parametrize(
    ("keys", "stay"),
    [
        ({}, {"own"}),
        ({"idp_provider_url": "https://a-slip-of-the-pen.example"}, {"own"}),  # taken back, nothing is lost
        ({"idp_provider": "okta", "idp_provider_url": "https://corp.okta.com"}, set()),
    ],
)
async def test_sessions_of_entries_end_with_the_keys_of_one_provider_and_its_own_do_not(
    tmp_path: Path, broker: MemoryStore, keys: dict[str, Any], stay: set[str]
) -> None:
    own = SessionRecord("own-1", "oidc/1", "1", "oidc", 1000.0, 9e9, issuer="https://idp.example.com")
    await broker.put(SESSION, own.id, own.to_data())
    with capture_logs() as logged:
        await RemovedProviders(make_options(tmp_path, **keys), broker).run()
    assert await left(broker) == {*stay, "broken"}
    ended = {entry["provider"]: entry["sessions"] for entry in logged if entry["event"] == "sessions of removed identity provider ended"}
    assert ended == {"corp": 40, "partner": 40, **({} if stay else {"oidc": 1})}


async def test_unavailable_broker_is_retried(tmp_path: Path, broker: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    page, answers = broker.page, iter([BrokerError("away"), BrokerError("away")])

    async def away_at_first(*arguments: Any) -> Any:
        if (error := next(answers, None)) is not None:
            raise error
        return await page(*arguments)

    monkeypatch.setattr(broker, "page", away_at_first)
    with capture_logs() as logged:
        await RemovedProviders(several(tmp_path, entry("corp", CORP)), broker).run()
    monkeypatch.undo()
    assert await left(broker) == {"corp", "broken"}
    assert sum(entry["event"] == "ending sessions of removed providers failed" for entry in logged) == 2
