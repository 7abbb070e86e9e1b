"""Is there a page of the admin that shows a secret?  Marked ones are planted wherever records hold them, and every page is read."""

import asyncio
import sqlite3
from dataclasses import fields, replace
from html import unescape
from pathlib import Path
from urllib.parse import parse_qsl, urljoin, urlsplit

import pytest
from django.db import connection

from databroker.admin import group_admin, session_admin
from databroker.models import Group as GroupRow
from databroker.models import Session, User
from databroker.projection.projection import Projection
from databroker.records import (
    DIRECTORY_GROUP,
    DIRECTORY_USER,
    SERVICE_ACCOUNT,
    SESSION,
    USER,
    DirectoryGroup,
    DirectoryUser,
    SessionRecord,
    UserRecord,
)
from databroker.store.memory import MemoryStore
from tests.support.admin import AdminPages
from tests.support.database import in_database
from tests.support.options import make_options

pytestmark = pytest.mark.usefixtures("database")

MARK = "planted-8c1f"
SECRET_FIELDS = [field.name for field in fields(SessionRecord) if "token" in field.name and field.type is str]
CLAIMS = {
    "email": "ann@a.org",
    "department": "shown-claim",
    "access_token": f"{MARK}-claim",
    "_claim_sources": {"a": {"endpoint": "https://a.example", "access_token": f"{MARK}-source"}},
    "settings": {"deep": [{"client_secret": f"{MARK}-nested"}]},
    "at_hash": f"{MARK}-hash",
    "nonce": f"{MARK}-nonce",
    "picture": f"https://a.example/?t={MARK}-access_token.",
}


async def filled_store() -> MemoryStore:
    store = MemoryStore()
    session = SessionRecord("s1", "oidc/ann", "ann", "oidc", 1_700_000_000.0, 4_000_000_000.0, claims=CLAIMS, client_address="192.0.2.1")
    session = replace(session, **{name: f"{MARK}-{name}." for name in SECRET_FIELDS})
    await store.put(SESSION, "s1", session.to_data())
    await store.put(SESSION, "s2", replace(session, id="s2").to_data())
    user_claims = {name: value for name, value in CLAIMS.items() if name != "picture"}
    await store.put(USER, "oidc/ann", {**UserRecord("oidc/ann", "ann@a.org", claims=user_claims).to_data(), "password": f"{MARK}-user"})
    await store.put(DIRECTORY_USER, "oidc/ann", {**DirectoryUser("oidc/ann", group_ids=("g",)).to_data(), "token": f"{MARK}-directory"})
    await store.put(DIRECTORY_GROUP, "g", {**DirectoryGroup("g", "group").to_data(), "secret": f"{MARK}-group"})
    await store.put(SERVICE_ACCOUNT, "robot", {"user_id": "robot", "token": f"{MARK}-robot"})
    return store


async def project(store: MemoryStore) -> None:
    following = asyncio.create_task(Projection(store, pause=0.002).run())
    async with asyncio.timeout(10):
        while await in_database(lambda: Session.objects.count() + User.objects.count() + GroupRow.objects.count()) < 4:
            await asyncio.sleep(0.004)
    following.cancel()
    await asyncio.wait({following})


async def every_page(pages: AdminPages) -> dict[str, str]:
    """Pages by URL, reached by links from the index; each list is searched, sorted and filtered by its own links."""
    left = ["/admin/", *(f"/admin/databroker/{model}/?q={MARK}" for model in ("session", "user", "group", "auditentry"))]
    read: dict[str, str] = {}
    while left:
        url = left.pop()
        parts = urlsplit(url)
        requested = dict(parse_qsl(parts.query))
        if url in read or "/logout/" in url or len(requested) > 1 or requested.get("o", "1") != "1":
            continue
        response = await pages.aget(parts.path.removeprefix("/admin/"), **requested)
        assert response.status_code in (200, 302), url
        read[url] = response.content.decode() + str(response.headers)
        links = (unescape(link) for link in _links(read[url]))
        left += [link for link in (urljoin(url, link) for link in links) if link.startswith("/admin/")]
    return read


def _links(page: str) -> list[str]:
    return [part.partition('"')[0] for part in page.split('href="')[1:] if not part.startswith(("#", "http", "/static"))]


async def test_no_page_shows_a_token_or_a_secret(tmp_path: Path) -> None:
    store = await filled_store()
    await project(store)
    registers, options = (session_admin.register, group_admin.register), make_options(tmp_path)
    pages = await in_database(lambda: AdminPages(*registers, broker=store, options=options))
    await pages.apost("databroker/session/", action="end_sessions", _selected_action=["s2"])
    read = await every_page(pages)
    names = {urlsplit(url).path.split("/")[-2] for url in read}
    assert names >= {"change", "delete", "history", "session", "user", "group", "auditentry"}
    assert any("shown-claim" in page for url, page in read.items() if "/session/s1/change" in url)
    assert any("shown-claim" in page for url, page in read.items() if "/user/" in url and "change" in url)
    planted = [f"{MARK}-", *(f"{MARK}-{name}" for name in SECRET_FIELDS)]
    assert [url for url, page in read.items() if any(secret in page.replace(f"?q={MARK}", "") for secret in planted)] == []


async def test_no_table_of_the_admin_holds_a_token_or_a_claim() -> None:
    store = await filled_store()
    await project(store)
    with sqlite3.connect(connection.settings_dict["NAME"]) as database:
        dump = "\n".join(database.iterdump())
    database.close()
    assert "192.0.2.1" in dump
    assert MARK not in dump
    assert "shown-claim" not in dump


def test_every_field_that_holds_a_token_is_planted() -> None:
    assert set(SECRET_FIELDS) == {"id_token", "access_token", "refresh_token", "unverified_id_token"}
