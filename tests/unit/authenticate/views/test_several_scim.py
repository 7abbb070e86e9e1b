"""SCIM of several providers at one address: the token selects the provider, and its data never reaches another's users."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from django.core.handlers.asgi import ASGIHandler

from databroker.models import AuditEntry
from databroker.records import DIRECTORY_GROUP, DIRECTORY_USER, SCIM_GROUP, SCIM_INDEX, SCIM_USER, SESSION, SessionRecord
from tests.support.authenticate_site import Response, Site
from tests.support.database import in_database
from tests.support.fake_idp import FakeIdP
from tests.support.several_providers import SeveralSite, entry
from tests.support.signed_in import put_session

CORP, PARTNER = "0123456789abcdefghijklmnopqrstuv", "vutsrqponmlkjihgfedcba9876543210"
BASE = "/.gate/scim/v2/"
ANN = {"userName": "ann@corp.example", "externalId": "ann", "emails": [{"value": "ann@corp.example"}]}


@pytest.fixture
async def site(tmp_path: Path, idp: FakeIdP, django_pages: ASGIHandler, database: None) -> AsyncIterator[SeveralSite]:
    other = await FakeIdP.started()
    idps = {"corp": idp, "partner": other, "none": idp}
    entries = [
        entry("corp", idp, scim_token=CORP),
        entry("partner", other, scim_token=PARTNER, scim_user_id="userName", scim_group_id="displayName"),
        entry("none", idp, url="https://none.example"),
    ]
    site = SeveralSite(tmp_path, idps, django_pages, identity_providers=entries)
    await site.service.start()
    yield site
    await site.service.stop()
    await other.stop()


async def ask(site: Site, token: str, method: str, path: str, document: Any = None) -> Response:
    sent = {"authorization": f"Bearer {token}", "content-type": "application/scim+json"}
    body = b"" if document is None else json.dumps(document).encode()
    return await site.answer(method, BASE + path, [(name.encode(), value.encode()) for name, value in sent.items()], body)


async def request_json(site: Site, token: str, method: str, path: str, document: Any = None, *, status: int = 200) -> dict[str, Any]:
    response = await ask(site, token, method, path, document)
    assert response.status == status, response.text
    return json.loads(response.text) if response.text else {}


async def records(site: Site, type: str) -> list[str]:
    return [record.id for record in await site.broker.page(type, "", 1000)]


async def everything_of_corp(site: Site) -> dict[str, Any]:
    """Records of corp, pushed and decided by, as they are."""
    types = (DIRECTORY_USER, DIRECTORY_GROUP, SCIM_USER, SCIM_GROUP, SCIM_INDEX, SESSION)
    found = [record for type in types for record in await site.broker.page(type, "", 1000)]
    of_corp = [record for record in found if record.id.startswith("corp/") or record.type == SESSION]
    return {f"{record.type} {record.id}": (record.version, dict(record.data)) for record in of_corp}


@pytest.fixture
async def pushed(site: SeveralSite) -> tuple[SeveralSite, str, str]:
    """Corp has pushed ann, who has a session, and the group that she is in: the site, and their ids."""
    user = (await request_json(site, CORP, "POST", "Users", ANN, status=201))["id"]
    group = {"displayName": "Staff", "externalId": "staff", "members": [{"value": user}]}
    group_id = (await request_json(site, CORP, "POST", "Groups", group, status=201))["id"]
    session = SessionRecord("s1", "corp/ann", "ann", "corp", 0.0, 4e9, issuer=site.service.options.providers["corp"].issuer)
    await put_session(site.broker, "s1", session.to_data())
    return site, user, group_id


async def test_scim_token_selects_the_provider(pushed: tuple[SeveralSite, str, str]) -> None:
    site, _, _ = pushed
    await request_json(site, PARTNER, "POST", "Users", {"userName": "bob", "externalId": "ann"}, status=201)
    await request_json(site, PARTNER, "POST", "Groups", {"displayName": "staff", "externalId": "x"}, status=201)
    assert await records(site, DIRECTORY_USER) == ["corp/ann", "partner/bob"]
    assert await records(site, DIRECTORY_GROUP) == ["corp/staff", "partner/staff"]
    schemas = (await request_json(site, PARTNER, "GET", "Schemas"))["Resources"]
    assert "externalId" not in [each["name"] for each in schemas[0]["attributes"] if each["required"]]


async def test_no_client_sees_another_s(pushed: tuple[SeveralSite, str, str]) -> None:
    site, user, group = pushed
    for path in ("", "Users", "Groups", "Users?filter=userName%20eq%20%22ann%40corp.example%22", f"Users?filter=id%20eq%20%22{user}%22"):
        assert (await request_json(site, PARTNER, "GET", path))["totalResults"] == 0, path
        assert (await request_json(site, CORP, "GET", path))["totalResults"] >= 1, path
    for path in ("Users", "Groups"):
        assert (await request_json(site, PARTNER, "POST", f"{path}/.search", {}))["totalResults"] == 0
    for id in (user, f"corp/{user}", f"corp%2F{user}"):
        assert (await ask(site, PARTNER, "GET", f"Users/{id}")).status == 404
    for text in (f"corp/{user}", f"../corp/{user}"):
        query = f"Users?filter=id%20eq%20%22{text.replace('/', '%2F')}%22"
        assert (await request_json(site, PARTNER, "GET", query))["totalResults"] == 0
    assert (await ask(site, PARTNER, "GET", f"Groups/{group}")).status == 404


@pytest.mark.parametrize(
    ("method", "path", "document"),
    [
        ("PUT", "Users/{user}", {**ANN, "active": False}),
        ("PATCH", "Users/{user}", {"Operations": [{"op": "replace", "path": "active", "value": False}]}),
        ("DELETE", "Users/{user}", None),
        ("PUT", "Groups/{group}", {"displayName": "Staff", "members": []}),
        ("PATCH", "Groups/{group}", {"Operations": [{"op": "remove", "path": "members"}]}),
        ("DELETE", "Groups/{group}", None),
        ("DELETE", "Users/corp%2F{user}", None),
        ("POST", "Users", {"userName": "ann@corp.example", "externalId": "ann", "active": False}),
        ("POST", "Users", {"userName": "corp/ann", "externalId": "corp/ann", "active": False, "id": "{user}"}),
        ("POST", "Users", {"userName": "../corp/ann", "externalId": "../corp/ann", "emails": [{"value": "ann@corp.example"}]}),
        ("POST", "Groups", {"displayName": "staff", "externalId": "staff", "members": [{"value": "{user}"}, {"value": "corp/{user}"}]}),
        ("POST", "Groups", {"displayName": "corp/staff", "externalId": "corp/staff", "id": "{group}"}),
    ],
)
async def test_a_hostile_client_changes_nothing_of_another_s(
    pushed: tuple[SeveralSite, str, str], method: str, path: str, document: Any
) -> None:
    site, user, group = pushed
    before = await everything_of_corp(site)
    written = json.loads(json.dumps(document).replace("{user}", user).replace("{group}", group))
    response = await ask(site, PARTNER, method, path.format(user=user, group=group), written)
    assert response.status in (201, 404), response.text
    assert await everything_of_corp(site) == before
    assert not [id for id in await records(site, DIRECTORY_USER) if not id.startswith(("corp/", "partner/"))]
    session = SessionRecord("s1", "corp/ann", "ann", "corp", 0.0, 4e9, issuer=site.service.options.providers["corp"].issuer)
    assert not await site.service.is_deactivated(session)


async def test_deactivation_ends_sessions_of_its_provider(pushed: tuple[SeveralSite, str, str]) -> None:
    site, user, _ = pushed
    partner = site.service.options.providers["partner"]
    partner_session = SessionRecord("s2", "partner/ann@corp.example", "ann@corp.example", "partner", 0.0, 4e9, issuer=partner.issuer)
    await put_session(site.broker, "s2", partner_session.to_data())
    await request_json(site, PARTNER, "POST", "Users", {**ANN, "active": False}, status=201)
    assert await records(site, SESSION) == ["s1"]
    assert await site.service.is_deactivated(partner_session)
    await request_json(site, CORP, "PUT", f"Users/{user}", {**ANN, "active": False})
    assert await records(site, SESSION) == []


async def test_the_same_change_at_two_is_made_at_once(pushed: tuple[SeveralSite, str, str]) -> None:
    """One client's long change is not waited for by another's."""
    site, _, _ = pushed
    assert await site.broker.acquire("scim of corp", 60.0) is not None
    await request_json(site, PARTNER, "POST", "Users", ANN, status=201)


@pytest.mark.parametrize("token", ["", "none", "not-a-token-of-anybody-0123456789", CORP[:-1], f"{CORP}{PARTNER}"])
async def test_refuses_requests_without_token(site: SeveralSite, token: str) -> None:
    assert (await ask(site, token, "GET", "Users")).status == 401


async def test_the_audit_log_names_the_provider(pushed: tuple[SeveralSite, str, str]) -> None:
    site, _, _ = pushed

    def audited() -> list[tuple[str, str]]:
        return list(AuditEntry.objects.order_by("pk").values_list("actor", "object_id"))

    await site.service.audit_writer.stop()
    assert await in_database(audited) == [("corp: the provider (SCIM)", "corp/ann"), ("corp: the provider (SCIM)", "corp/staff")]
