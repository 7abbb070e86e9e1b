"""Sessions that the sweep indexes; ../test_linked_accounts.py covers the pages."""

from pathlib import Path
from typing import Any

import pytest

from authenticate.session.linked_account_index import CONCURRENCY, LinkedAccountIndexer
from authenticate.session.session_service import SessionService
from config.settings.linked_accounts import VERIFIED_EMAIL
from databroker.records import SESSION, SESSION_INDEX, USER, SessionRecord, UserRecord
from databroker.store.memory import MemoryStore
from tests.support.options import make_options
from tests.support.several_providers import several

ANN = "ann@shared.example"
SIGN_INS = 2 * CONCURRENCY + 1


@pytest.mark.parametrize(("keys", "indexed"), [({"link_by": VERIFIED_EMAIL}, SIGN_INS), ({}, 0)])
async def test_each_session_of_linked_account_is_indexed_and_malformed_values_are_skipped(
    tmp_path: Path, keys: dict[str, Any], indexed: int
) -> None:
    made = several("corp", "partner")
    entries = [{**each, **keys, "domains": ["shared.example"]} for each in made["identity_providers"]]
    options, broker = make_options(tmp_path, **{**made, "identity_providers": entries}), MemoryStore()
    issuer, claims = options.providers["corp"].issuer, {"email": ANN, "email_verified": True}
    await broker.put(USER, "corp/1", UserRecord("corp/1", ANN, True, "Ann", claims, issuer=issuer).to_data())
    for number in range(SIGN_INS):
        session = SessionRecord(f"s{number}", "corp/1", "1", "corp", 1000.0, 9e9, claims, issuer=issuer)
        await broker.put(SESSION, session.id, session.to_data())
    await broker.put(SESSION, "broken", {"provider": 7})
    sessions = SessionService(options, broker)
    await LinkedAccountIndexer(sessions, broker).run()
    found = {id async for id in sessions.index.session_ids_for_linked(f"{VERIFIED_EMAIL}/{ANN}")}
    assert len(found) == indexed
    assert bool(await broker.page(SESSION_INDEX, "", 1)) is bool(indexed)
