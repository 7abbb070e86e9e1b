"""Portal preferences: stored per user, also under concurrent changes."""

import asyncio

import pytest

from authenticate.portal import preferences
from databroker.records import PORTAL_PREFERENCES, PortalPreferences, SessionRecord
from databroker.store.memory import MemoryStore

NOW = 1_000.0


def session(user_id: str = "oidc/1", issuer: str = "https://idp.example") -> SessionRecord:
    return SessionRecord("s", user_id, "1", "oidc", 0.0, 9e9, issuer=issuer)


@pytest.fixture
def broker() -> MemoryStore:
    return MemoryStore(lambda: NOW)


async def test_toggles_favourites(broker: MemoryStore) -> None:
    for key in ("https://b/", "https://a/"):
        await preferences.update_preferences(broker, session(), preferences.toggle_favourite, key, NOW)
    assert (await preferences.load_preferences(broker, session())).favourites == ("https://b/", "https://a/")
    await preferences.update_preferences(broker, session(), preferences.toggle_favourite, "https://b/", NOW)
    assert (await preferences.load_preferences(broker, session())).favourites == ("https://a/",)


async def test_recent_order(broker: MemoryStore) -> None:
    for key in (
        "https://a/",
        "https://b/",
        "https://a/",
        *(f"https://{number}/" for number in range(preferences.MAX_RECENT - 1)),
        "https://a/",
    ):
        await preferences.update_preferences(broker, session(), preferences.record_opened, key, NOW)
    opened = (await preferences.load_preferences(broker, session())).recent
    assert len(opened) == preferences.MAX_RECENT
    assert opened[0] == "https://a/"
    assert len(set(opened)) == len(opened)


async def test_preferences_belong_to_one_user(broker: MemoryStore) -> None:
    await preferences.update_preferences(broker, session(), preferences.toggle_favourite, "https://a/", NOW)
    for other in (session("oidc/2"), session(issuer="https://other.example")):
        assert (await preferences.load_preferences(broker, other)).favourites == ()


async def test_two_browsers_lose_nothing_of_each_other_s(broker: MemoryStore) -> None:
    keys = {"https://a/", "https://b/", "https://c/"}
    await asyncio.gather(*(preferences.update_preferences(broker, session(), preferences.toggle_favourite, key, NOW) for key in keys))
    assert set((await preferences.load_preferences(broker, session())).favourites) == keys


async def test_favourites_are_limited(broker: MemoryStore) -> None:
    full = PortalPreferences(tuple(f"https://{number}/" for number in range(preferences.MAX_FAVOURITES)), issuer=session().issuer)
    await broker.put(PORTAL_PREFERENCES, "oidc/1", full.to_data())
    await preferences.update_preferences(broker, session(), preferences.toggle_favourite, "https://a/", NOW)
    found = (await preferences.load_preferences(broker, session())).favourites
    assert (len(found), found[-1], found[0]) == (preferences.MAX_FAVOURITES, "https://a/", "https://1/")
    record = await broker.get(PORTAL_PREFERENCES, "oidc/1")
    assert record is not None
    assert record.expires == NOW + preferences.RETENTION_SECONDS


async def test_a_record_that_makes_no_sense_is_none(broker: MemoryStore) -> None:
    await broker.put(PORTAL_PREFERENCES, "oidc/1", {"favourites": 7, "issuer": session().issuer})
    assert await preferences.load_preferences(broker, session()) == PortalPreferences(issuer=session().issuer)
