"""SCIM endpoint: documented message sequences of Okta and Entra ID, and refused requests."""

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.core.handlers.asgi import ASGIHandler
from django.db import connection
from structlog.testing import capture_logs

from databroker.models import AuditEntry
from databroker.records import DIRECTORY_USER, DirectoryUser, SessionRecord
from tests.support.authenticate_site import Response, Site
from tests.support.database import in_database
from tests.support.fake_idp import FakeIdP

TOKEN = "0123456789abcdefghijklmnopqrstuv"
BASE = "/.gate/scim/v2/"
PATCH_OP = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
USER = "urn:ietf:params:scim:schemas:core:2.0:User"
GROUP = "urn:ietf:params:scim:schemas:core:2.0:Group"
ENTERPRISE = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"


@pytest.fixture
async def site(tmp_path: Path, idp: FakeIdP, django_pages: ASGIHandler, database: None) -> AsyncIterator[Site]:
    site = Site(tmp_path, idp, django_pages, scim_token=TOKEN)
    await site.service.start()
    yield site
    await site.service.stop()


async def ask(site: Site, method: str, path: str, document: Any = None, **headers: str) -> Response:
    sent = {"authorization": f"Bearer {TOKEN}", "content-type": "application/scim+json", **headers}
    body = document if isinstance(document, bytes) else b"" if document is None else json.dumps(document).encode()
    return await site.answer(method, BASE + path, [(name.replace("_", "-").encode(), value.encode()) for name, value in sent.items()], body)


async def done(site: Site, method: str, path: str, document: Any = None, *, status: int = 200) -> dict[str, Any]:
    response = await ask(site, method, path, document)
    assert response.status == status, response.text
    assert response.headers["content-type"] == "application/scim+json"
    return json.loads(response.text)


def where(text: str) -> str:
    """Query of this filter; `'` replaces quotation marks."""
    return "filter=" + quote(text.replace("'", '"'))


def patch(*operations: dict[str, Any]) -> dict[str, Any]:
    return {"schemas": [PATCH_OP], "Operations": list(operations)}


async def groups_of(site: Site, subject: str) -> tuple[str, ...] | None:
    """None of who is unknown, or deactivated."""
    record = await site.broker.get(DIRECTORY_USER, f"oidc/{subject}")
    user = DirectoryUser.from_record(record) if record is not None else None
    return user.group_ids if user is not None and not user.is_deactivated else None


async def deactivate(site: Site, subject: str) -> bool:
    issuer = site.service.options.first_provider.issuer
    return await site.service.is_deactivated(SessionRecord("1", f"oidc/{subject}", subject, "oidc", 0.0, 4e9, issuer=issuer))


OKTA_USER = {
    "schemas": [USER],
    "userName": "test.user@okta.local",
    "name": {"givenName": "Test", "familyName": "User"},
    "emails": [{"primary": True, "value": "test.user@okta.local", "type": "work"}],
    "displayName": "Test User",
    "locale": "en-US",
    "externalId": "00ujl29u0le5T6Aj10h7",
    "groups": [],
    "password": "1mz050nq",
    "active": True,
}


async def test_okta(site: Site) -> None:
    found = await done(site, "GET", "Users?startIndex=1&count=100&" + where("userName eq 'test.user@okta.local'"))
    assert (found["totalResults"], found["Resources"]) == (0, [])
    user = await done(site, "POST", "Users", OKTA_USER, status=201)
    assert user["userName"] == "test.user@okta.local"
    assert "password" not in user
    assert user["meta"]["location"].endswith(f"/.gate/scim/v2/Users/{user['id']}")
    conflict = await done(site, "POST", "Users", OKTA_USER, status=409)
    assert (conflict["status"], conflict["scimType"]) == ("409", "uniqueness")
    assert (await done(site, "GET", f"Users/{user['id']}"))["displayName"] == "Test User"
    found = await done(site, "GET", "Users?startIndex=1&count=100&" + where("userName eq 'TEST.user@okta.local'"))
    assert [each["id"] for each in found["Resources"]] == [user["id"]]
    changed = await done(site, "PUT", f"Users/{user['id']}", {**OKTA_USER, "id": user["id"], "name": {"givenName": "Another"}})
    assert changed["name"] == {"givenName": "Another"}

    assert (await done(site, "GET", "Groups?startIndex=1&count=100"))["totalResults"] == 0
    group = await done(site, "POST", "Groups", {"schemas": [GROUP], "displayName": "Test SCIMv2", "members": []}, status=201)
    renamed = patch({"op": "replace", "value": {"id": group["id"], "displayName": "Test SCIMv2 Group"}})
    assert (await done(site, "PATCH", f"Groups/{group['id']}", renamed))["displayName"] == "Test SCIMv2 Group"
    joined = patch({"op": "add", "path": "members", "value": [{"value": user["id"], "display": "test.user@okta.local"}]})
    assert [member["value"] for member in (await done(site, "PATCH", f"Groups/{group['id']}", joined))["members"]] == [user["id"]]
    assert await groups_of(site, "00ujl29u0le5T6Aj10h7") == (group["id"],)
    document = await done(site, "GET", f"Users/{user['id']}")
    assert [each["value"] for each in document["groups"]] == [group["id"]]
    left = patch({"op": "remove", "path": f'members[value eq "{user["id"]}"]'})
    assert (await done(site, "PATCH", f"Groups/{group['id']}", left))["members"] == []
    assert await groups_of(site, "00ujl29u0le5T6Aj10h7") == ()

    off = await done(site, "PATCH", f"Users/{user['id']}", patch({"op": "replace", "value": {"active": False}}))
    assert off["active"] is False
    assert await groups_of(site, "00ujl29u0le5T6Aj10h7") is None
    assert (await ask(site, "DELETE", f"Groups/{group['id']}")).status == 204
    assert (await done(site, "GET", f"Groups/{group['id']}", status=404))["status"] == "404"


ENTRA_USER = {
    "schemas": [USER, ENTERPRISE],
    "externalId": "0a21f0f2-8d2a-4f8e-bf98-7363c4aed4ef",
    "userName": "Test_User_ab6490ee-1e48-479e-a20b-2d77186b5dd1",
    "active": True,
    "emails": [{"primary": True, "type": "work", "value": "Test_User_fd0ea19b@testuser.com"}],
    "meta": {"resourceType": "User"},
    "name": {"formatted": "givenName familyName", "familyName": "familyName", "givenName": "givenName"},
    "roles": [],
    ENTERPRISE: {"department": "Sales"},
}
ENTRA_SUBJECT = "0a21f0f2-8d2a-4f8e-bf98-7363c4aed4ef"


async def test_entra_id(site: Site) -> None:
    assert (await done(site, "GET", "Users?" + where("userName eq 'non-existent user'")))["totalResults"] == 0
    user = await done(site, "POST", "Users", ENTRA_USER, status=201)
    assert user["schemas"] == [USER, ENTERPRISE]
    assert user[ENTERPRISE] == {"department": "Sales"}
    operations = patch(
        {"op": "Replace", "path": 'emails[type eq "work"].value', "value": "updatedEmail@microsoft.com"},
        {"op": "Replace", "path": "name.familyName", "value": "updatedFamilyName"},
        {"op": "Add", "path": f"{ENTERPRISE}:employeeNumber", "value": "701984"},
    )
    changed = await done(site, "PATCH", f"Users/{user['id']}", operations)
    assert (changed["emails"][0]["value"], changed["name"]["familyName"]) == ("updatedEmail@microsoft.com", "updatedFamilyName")
    assert changed[ENTERPRISE] == {"department": "Sales", "employeeNumber": "701984"}

    group = {
        "schemas": [GROUP, "http://schemas.microsoft.com/2006/11/ResourceManagement/ADSCIM/2.0/Group"],
        "externalId": "8aa1a0c0-c4c3-4bc0-b4a5-2ef676900159",
        "displayName": "displayName",
        "members": [],
        "meta": {"resourceType": "Group"},
    }
    id = (await done(site, "POST", "Groups", group, status=201))["id"]
    assert "members" not in await done(site, "GET", f"Groups/{id}?excludedAttributes=members")
    found = await done(site, "GET", "Groups?excludedAttributes=members&" + where("displayName eq 'displayName'"))
    assert [each["id"] for each in found["Resources"]] == [id]
    member = [{"$ref": None, "value": user["id"]}]
    await done(site, "PATCH", f"Groups/{id}", patch({"op": "Add", "path": "members", "value": member}))
    assert await groups_of(site, ENTRA_SUBJECT) == ("8aa1a0c0-c4c3-4bc0-b4a5-2ef676900159",)
    await done(site, "PATCH", f"Groups/{id}", patch({"op": "Remove", "path": "members", "value": member}))
    assert await groups_of(site, ENTRA_SUBJECT) == ()

    off = await done(site, "PATCH", f"Users/{user['id']}", patch({"op": "Replace", "path": "active", "value": "False"}))
    assert off["active"] is False
    assert await groups_of(site, ENTRA_SUBJECT) is None
    assert (await ask(site, "DELETE", f"Users/{user['id']}")).status == 204


async def test_deactivation_ends_sessions_and_blocks_sign_in(site: Site) -> None:
    browser = site.browser()
    await browser.sign_in("alice")
    assert (await browser.get("/.gate/")).status == 200
    user = await done(site, "POST", "Users", {"userName": "alice", "externalId": "alice"}, status=201)
    assert (await browser.get("/.gate/")).status == 200
    await done(site, "PATCH", f"Users/{user['id']}", patch({"op": "replace", "value": {"active": False}}))
    assert (await browser.get("/.gate/")).status == 302
    refused = await browser.sign_in("alice")
    assert (refused.status, "deactivated" in refused.text) == (403, True)
    assert await site.sessions() == []
    assert (await site.browser().sign_in("bob")).status == 302
    await done(site, "PATCH", f"Users/{user['id']}", patch({"op": "replace", "value": {"active": True}}))
    assert (await browser.sign_in("alice")).status == 302


def nested(**attributes: Any) -> dict[str, Any]:
    return {USER: attributes}


def once(op: str, value: Any = None, **path: str) -> tuple[str, dict[str, Any]]:
    return "PATCH", patch({"op": op, **path, **({"value": value} if op != "remove" else {})})


def put(**attributes: Any) -> tuple[str, dict[str, Any]]:
    return "PUT", {"userName": "ann", "externalId": "x", **attributes}


FULL = f"{USER}:active"
# (method, document): a document without `active` changes nothing.
UNSPECIFIED = [
    put(), put(active=None), put(**nested(active=None)), put(**{FULL: None}), put(title="x"),
    once("remove", path="active"), once("remove", path="ACTIVE"), once("remove", path=FULL), once("Remove", path="Active"),
    once("replace", None, path="active"), once("add", None, path="active"), once("replace", None, path=FULL),
    once("replace", {"active": None}), once("add", nested(active=None)), once("replace", {FULL: None}), once("replace", {}),
    once("replace", {"title": "x"}), once("replace", {"active": None}, path=USER), once("replace", nested()),
]  # fmt: skip


def patches(word: Any) -> list[tuple[str, dict[str, Any]]]:
    """Each way of saying it."""
    return [
        put(active=word), put(ACTIVE=word), put(active=str(word)), put(**nested(active=word)), put(**{FULL: word}),
        put(**{FULL.upper(): word}),
        once("replace", word, path="active"), once("add", word, path="active"), once("Replace", str(word), path="ACTIVE"),
        once("replace", word, path=FULL), once("replace", word, path=FULL.upper()), once("replace", {"active": word}, path=USER),
        once("replace", {"active": word}), once("add", {"Active": word}), once("replace", {FULL: word}),
        once("replace", nested(active=word)),
        once("Add", nested(ACTIVE=str(word), title="x")), once("replace", {"title": "x", **nested(active=word)}),
        once("add", {USER.upper(): {"active": word}}), once("replace", nested(**nested(active=word))),
    ]  # fmt: skip


# Ambiguous.
UNCLEAR = [
    put(active="no"), put(active=0), put(active=[]), put(active={"value": False}), put(active=True, ACTIVE=False),
    put(active=True, **nested(active=False)), put(**{FULL: True, "active": False}), put(**{USER: True}), put(**{USER: [{"active": False}]}),
    once("replace", "off", path="active"), once("replace", False, path="active.value"), once("replace", {"active": True, FULL: False}),
    once("replace", {"active": True, **nested(active=False)}), once("replace", {USER: False}), once("replace", False, path=USER),
    once("remove", path=USER), once("remove"), once("remove", path=f"{USER}[active eq true]"), once("replace", {f"{USER}:": False}),
]  # fmt: skip


@pytest.mark.parametrize("was_active", [True, False])
@pytest.mark.parametrize(
    ("changes", "becomes", "status"),
    [(UNSPECIFIED, None, 200), (patches(True), True, 200), (patches(False), False, 200), (UNCLEAR, None, 400)],
    ids=["not said", "said to be", "said not to be", "unclear"],
)
async def test_last_push_wins(
    site: Site, was_active: bool, changes: list[tuple[str, dict[str, Any]]], becomes: bool | None, status: int
) -> None:
    path = f"Users/{(await done(site, 'POST', 'Users', {'userName': 'ann', 'externalId': 'x'}, status=201))['id']}"
    for method, document in changes:
        await done(site, "PUT", path, {"userName": "ann", "externalId": "x", "active": was_active})
        stored = await done(site, method, path, document, status=status)
        expected = was_active if becomes is None else becomes
        assert await deactivate(site, "x") is not expected, (method, document)
        assert ((await groups_of(site, "x")) is not None) is expected, (method, document)
        if status == 200:
            assert stored.get("active", expected) is expected, (method, document)
            assert {name for name in stored if name.lower().startswith("urn:")} == set(), (method, document)


async def test_unrelated_changes_keep_deactivation(site: Site) -> None:
    path = f"Users/{(await done(site, 'POST', 'Users', {'userName': 'ann', 'externalId': 'x', 'active': False}, status=201))['id']}"
    for method, document in UNSPECIFIED * 2:
        await done(site, method, path, document)
    assert await deactivate(site, "x")
    await done(site, *("PATCH", path), once("remove", path="active")[1])
    assert "active" not in await done(site, "GET", path)
    await done(site, *("PATCH", path), once("replace", {"title": "y"})[1])
    assert "active" not in await done(site, "GET", path)
    assert (await done(site, "PUT", path, put(title="z")[1]))["active"] is False


async def test_unknown_extension_is_stored(site: Site) -> None:
    foreign = "urn:ietf:params:scim:schemas:extension:acme:2.0:User"
    user = await done(site, "POST", "Users", {"userName": "ann", "externalId": "x", foreign: {"badge": "1"}}, status=201)
    path = f"Users/{user['id']}"
    await done(
        site, "PATCH", path, patch({"op": "replace", "path": f"{foreign}:badge", "value": "2"}, {"op": "add", "value": {foreign: {"a": 1}}})
    )
    assert (await done(site, "GET", path))[foreign] == {"badge": "2", "a": 1}


async def searched(site: Site, path: str, **query: Any) -> dict[str, Any]:
    return await done(site, "POST", path, {"schemas": ["urn:ietf:params:scim:api:messages:2.0:SearchRequest"], **query})


async def test_a_search_is_a_query_in_a_body(site: Site) -> None:
    ann = await done(
        site, "POST", "Users", {"userName": "ann", "externalId": "x", "name": {"givenName": "A", "familyName": "L"}}, status=201
    )
    await done(site, "POST", "Users", {"userName": "bob", "externalId": "y"}, status=201)
    group = await done(site, "POST", "Groups", {"displayName": "ann", "members": [{"value": ann["id"]}]}, status=201)
    ids = [ann["id"], group["id"]]

    async def found(path: str, **query: Any) -> list[str]:
        answer = await searched(site, path, **query)
        assert answer["itemsPerPage"] == len(answer["Resources"])
        return [each["id"] for each in answer["Resources"]]

    assert await found("Users/.search", filter='userName eq "ann"') == ids[:1]
    assert await found("Groups/.search", filter='userName eq "ann"') == []
    assert await found(".search", filter='userName eq "ann" or displayName eq "ann"') == ids
    assert await found(".search", filter='meta.resourceType eq "Group"') == ids[1:]
    assert await found(".search", filter=f'id eq "{ids[1]}"') == ids[1:]
    assert (await found(".search", startIndex=3), await found(".search", count=1, STARTINDEX="3")) == (ids[1:], ids[1:])
    assert (await searched(site, ".search", count=0))["totalResults"] == 3
    some = (await searched(site, "Users/.search", attributes=["name.familyName", f"{USER}:userName"], filter="name pr"))["Resources"][0]
    assert some == {"id": ann["id"], "schemas": [USER], "userName": "ann", "name": {"familyName": "L"}}
    less = (await searched(site, "Groups/.search", excludedAttributes=["members.$ref", "meta"]))["Resources"][0]
    assert (less["members"], "meta" in less) == ([{"value": ann["id"], "type": "User"}], False)
    assert (await done(site, "GET", "?" + where("userName eq 'bob'")))["totalResults"] == 1


@pytest.mark.parametrize("path", [".search", "Users/.search", "Groups/.search"])
async def test_a_search_that_can_not_be_read_is_refused(site: Site, path: str) -> None:
    for query in ({"filter": "x"}, {"filter": 5}, {"count": "x"}, {"count": True}, {"count": 1.5}, {"attributes": 5}, {"attributes": [5]}):
        assert (await done(site, "POST", path, query, status=400))["scimType"] in ("invalidFilter", "invalidValue"), query
    await done(site, "POST", path, b"{", status=400)
    for method in ("GET", "PUT", "PATCH", "DELETE"):
        await done(site, method, path, {}, status=405)


async def test_pages_of_a_list(site: Site) -> None:
    for number in range(5):
        await done(site, "POST", "Users", {"userName": f"user{number}", "externalId": f"{number}"}, status=201)
    page = await done(site, "GET", "Users?startIndex=4&count=3")
    assert (page["totalResults"], page["startIndex"], page["itemsPerPage"]) == (5, 4, 2)
    assert (await done(site, "GET", "Users?count=0"))["Resources"] == []
    assert (await done(site, "GET", "Users?startIndex=-3&count=2"))["itemsPerPage"] == 2
    found = await done(site, "GET", "Users?" + where("userName sw 'USER' and not (externalId eq '0' or externalId eq '1')"))
    assert found["totalResults"] == 3
    document = await done(site, "GET", "Users?attributes=userName&count=1")
    assert set(document["Resources"][0]) == {"id", "schemas", "userName"}


@pytest.mark.parametrize("attribute", ["id", "externalId", "userName"])
async def test_one_is_found_by_each_of_its_names(site: Site, attribute: str) -> None:
    user = await done(site, "POST", "Users", {"userName": "ann", "externalId": "x"}, status=201)
    found = await done(site, "GET", "Users?" + where(f"{attribute} eq '{user[attribute]}'"))
    assert found["totalResults"] == 1
    assert (await done(site, "GET", "Users?" + where(f"{attribute} eq 'nobody'")))["totalResults"] == 0


async def test_a_version_guards_a_change(site: Site) -> None:
    created = await ask(site, "POST", "Users", {"userName": "ann", "externalId": "x"})
    path = f"Users/{json.loads(created.text)['id']}"
    body = {"userName": "ann", "externalId": "x", "title": "y"}
    assert (await ask(site, "PUT", path, body, if_match=created.headers["etag"])).status == 200
    assert (await ask(site, "PUT", path, body, if_match=created.headers["etag"])).status == 412


async def test_invalid_selection_changes_nothing(site: Site) -> None:
    await done(site, "POST", "Users?attributes=userName", {"userName": "ann", "externalId": "x"}, status=201)
    assert set((await done(site, "GET", "Users?attributes=userName"))["Resources"][0]) == {"id", "schemas", "userName"}


async def test_the_server_describes_itself(site: Site) -> None:
    assert (await done(site, "GET", "ServiceProviderConfig"))["patch"] == {"supported": True}
    assert (await done(site, "GET", "ResourceTypes"))["totalResults"] == 2
    assert (await done(site, "GET", "ResourceTypes/Group"))["endpoint"] == "/Groups"
    assert (await done(site, "GET", f"Schemas/{USER}"))["name"] == "User"


@pytest.mark.parametrize("authorization", ["", "Bearer", f"Bearer {TOKEN}x", f"Basic {TOKEN}", TOKEN])
@pytest.mark.parametrize(("method", "path"), [("GET", "Users"), ("POST", "Users"), ("DELETE", "Users/x"), ("GET", "Schemas"), ("GET", "x")])
async def test_refuses_without_token(site: Site, authorization: str, method: str, path: str) -> None:
    response = await ask(site, method, path, {"userName": "ann", "externalId": "x"}, authorization=authorization)
    assert (response.status, response.headers["www-authenticate"].partition(",")[0]) == (401, 'Bearer realm="gate"')
    assert json.loads(response.text)["status"] == "401"


async def test_a_session_is_no_token(site: Site) -> None:
    browser = site.browser()
    await browser.sign_in("alice")
    assert (await browser.get(f"{BASE}Users")).status == 401


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400), (b"[]", 400), (b"null", 400), (b"{", 400), (b'{"userName": "a", "userName": "b"}', 400), (b"\xff", 400),
        (b'{"a":' * 100 + b"1" + b"}" * 100, 400), (b"[" * 100_000, 400), (b'{"userName": "\\ud800", "externalId": "x"}', 400),
        (b'{"userName": "a"}', 400), (b'{"userName": "a", "externalId": "x", "a": NaN}', 400),
    ],
)  # fmt: skip
async def test_unreadable_input_changes_nothing(site: Site, body: bytes, status: int) -> None:
    answer = await done(site, "POST", "Users", body, status=status)
    assert answer["schemas"] == ["urn:ietf:params:scim:api:messages:2.0:Error"]
    assert (await done(site, "GET", "Users"))["totalResults"] == 0


async def test_a_body_is_bounded_in_depth(site: Site) -> None:
    nested: dict[str, Any] = {"userName": "ann", "externalId": "x"}
    for _ in range(12):
        nested = {"userName": "ann", "externalId": "x", "more": nested}
    assert "too deeply" in (await done(site, "POST", "Users", nested, status=400))["detail"]


async def test_another_media_type_is_refused(site: Site) -> None:
    assert (await ask(site, "POST", "Users", OKTA_USER, content_type="application/x-www-form-urlencoded")).status == 415


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("PUT", "Users", 405), ("POST", "", 405), ("POST", "Schemas/.search", 405), ("POST", "Users/x/.search", 405),
        ("DELETE", "Groups", 405), ("POST", "Users/x", 405), ("POST", "Schemas", 405), ("GET", "Bulk", 404),
        ("GET", "Users/x/y", 404), ("GET", "Schemas/x", 404), ("GET", "Users?count=x", 400), ("GET", "Users?filter=x", 400),
        ("PATCH", "Users/x", 404),
    ],
)  # fmt: skip
async def test_missing_resource_is_a_scim_error(site: Site, method: str, path: str, status: int) -> None:
    response = await ask(site, method, path, patch({"op": "replace", "value": {"active": False}}))
    assert (response.status, json.loads(response.text)["status"]) == (status, str(status))


async def test_without_the_setting_there_is_no_such_page(tmp_path: Path, idp: FakeIdP, django_pages: ASGIHandler) -> None:
    site = Site(tmp_path, idp, django_pages)
    response = await ask(site, "GET", "Users", accept="text/html")
    assert (response.status, "does not exist" in response.text) == (404, True)
    await site.service.stop()


def audited() -> list[tuple[str, ...]]:
    return list(
        AuditEntry.objects.order_by("pk").values_list(
            "actor", "actor_id", "client_address", "action", "object_type", "object_id", "object_repr"
        )
    )


async def test_each_pushed_change_is_audited_once(site: Site) -> None:
    ann = {"userName": "ann@example.com", "externalId": "id-of-ann", "displayName": "Ann"}
    user = await done(site, "POST", "Users", ann, status=201)
    members = {"displayName": "Sales", "externalId": "g-1", "members": [{"value": user["id"]}]}
    group = await done(site, "POST", "Groups", members, status=201)
    await done(site, "PUT", f"Users/{user['id']}", ann)  # as it was
    await done(site, "PUT", f"Groups/{group['id']}", members)
    await done(site, "PATCH", f"Users/{user['id']}", patch({"op": "replace", "value": {"active": False}}))
    assert (await ask(site, "DELETE", f"Groups/{group['id']}")).status == 204
    assert (await ask(site, "DELETE", f"Groups/{group['id']}")).status == 404
    assert (await ask(site, "POST", "Users", ann)).status == 409
    await site.service.audit_writer.stop()
    rows = await in_database(audited)
    assert {row[:2] for row in rows} == {("the provider (SCIM)", "scim")}
    assert {row[2] for row in rows} == {"192.0.2.7"}
    assert [row[3:] for row in rows] == [
        ("created the user", "user", "oidc/id-of-ann", "Ann (ann@example.com)"),
        ("created the group, with 1 members", "group", "g-1", "Sales"),
        ("deactivated the user", "user", "oidc/id-of-ann", "Ann (ann@example.com)"),
        ("deleted the group, with 1 members", "group", "g-1", "Sales"),
    ]


@pytest.fixture
def no_audit_log(database: None) -> Iterator[None]:
    table, away = AuditEntry._meta.db_table, "audit_log_elsewhere"
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} RENAME TO {away}")
        yield
        cursor.execute(f"ALTER TABLE {away} RENAME TO {table}")


@pytest.mark.usefixtures("no_audit_log")
async def test_deactivation_works_without_audit(site: Site) -> None:
    user = await done(site, "POST", "Users", {"userName": "ann@example.com", "externalId": "id-of-ann"}, status=201)
    with capture_logs() as logged:
        await done(site, "PATCH", f"Users/{user['id']}", patch({"op": "replace", "value": {"active": False}}))
        await site.service.audit_writer.stop()
    assert await groups_of(site, "id-of-ann") is None
    missing = [entry for entry in logged if entry["event"] == "audit log entry lost"]
    assert [(entry["action"], entry["log_level"]) for entry in missing] == [
        ("created the user", "error"),
        ("deactivated the user", "error"),
    ]
