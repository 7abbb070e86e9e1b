"""People by the API, each with their groups."""

from pathlib import Path

from django.core.handlers.asgi import ASGIHandler

from databroker.claims import ProviderClaims
from databroker.models import AuditEntry, Group, Membership, User
from databroker.projection.rows import RowBatch, add_session, add_user, write
from databroker.records import SESSION, USER, Record
from tests.support.api_site import ApiSite
from tests.support.database import in_database, row
from tests.support.fake_idp import FakeIdP
from tests.support.several_providers import SeveralSite, several


def _make() -> None:
    for name in ("alice", "bob", "carol"):
        row(User, id=f"oidc/{name}", email=f"{name}@example.com", name=name.title())
    row(Group, id="g1", name="Guides")
    for user, group, from_claim in (("alice", "g1", False), ("alice", "g2", True), ("bob", "g1", False)):
        row(Membership, user_id=f"oidc/{user}", group_id=group, from_claim=from_claim, from_directory=not from_claim)


async def found(api: ApiSite, query: str) -> list[str]:
    return [item["id"] for item in (await api.done("GET", f"users?{query}"))["items"]]


async def test_lists_users_with_groups(api: ApiSite) -> None:
    await in_database(_make)
    page = await api.done("GET", "users?limit=1")
    (alice,) = page["items"]
    assert (alice["id"], alice["email"], alice["last_sign_in_at"], alice["group_count"]) == ("oidc/alice", "alice@example.com", None, 2)
    assert alice["groups"] == [
        {"id": "g1", "name": "Guides", "from_directory": True, "from_claim": False},
        {"id": "g2", "name": "", "from_directory": False, "from_claim": True},
    ]
    assert await found(api, f"cursor={page['next']}") == ["oidc/bob", "oidc/carol"]


async def test_filters_users(api: ApiSite) -> None:
    await in_database(_make)
    assert await found(api, "id=oidc/bob") == ["oidc/bob"]
    assert await found(api, "email=carol@example.com") == ["oidc/carol"]
    assert await found(api, "group=g1") == ["oidc/alice", "oidc/bob"]
    assert await found(api, "q=guides") == ["oidc/alice", "oidc/bob"]
    assert await found(api, "q=guides&id=oidc/bob") == ["oidc/bob"]
    assert await found(api, "id=oidc/%E2%80%AEbob") == []
    assert await found(api, "q=%25_%27%22%5C") == []


async def test_unauthoritative_address_finds_no_user(tmp_path: Path, idp: FakeIdP, django_pages: ASGIHandler, database: None) -> None:
    site = SeveralSite(tmp_path, {"corp": idp}, django_pages, identity_providers=several("corp", "partner")["identity_providers"])

    def make() -> None:
        rows = RowBatch(ProviderClaims.from_options(site.options))
        for id, email in (("corp/1", "CEO@Corp.example"), ("partner/eve", "CEO@Corp.example"), ("partner/bob", "bob@partner.example")):
            add_user(rows, id, Record(USER, id, {"email": email, "name": email}, 1, 0.0), None)
            add_session(rows, f"s-{id}", Record(SESSION, f"s-{id}", {"user_id": id}, 1, 0.0))
        write(rows)

    await in_database(make)
    async with ApiSite.running(site) as api:
        assert await found(api, "email=CEO@Corp.example") == ["corp/1"]
        assert await found(api, "q=ceo@corp.example") == ["corp/1"]
        assert await found(api, "q=corp.example") == ["corp/1"]
        assert await found(api, "email=bob@partner.example") == ["partner/bob"]
        assert [each["user_id"] for each in (await api.done("GET", "sessions?q=ceo@corp.example"))["items"]] == ["corp/1"]
        people = {each["id"]: each for each in (await api.done("GET", "users"))["items"]}
        names = {id: (each["email"], each["unauthoritative_email"], each["name"]) for id, each in people.items()}
        assert names == {
            "corp/1": ("CEO@Corp.example", "", "CEO@Corp.example"),
            "partner/eve": ("", "CEO@Corp.example", ""),
            "partner/bob": ("bob@partner.example", "", "bob@partner.example"),
        }
        session_keys = {"user_id": "partner/eve", "claims": {"email": "ceo@corp.example"}, "client_address": "192.0.2.1"}
        await site.broker.put(SESSION, "s1", session_keys)
        await api.done("DELETE", "sessions/s1", status=204)
        entry = await AuditEntry.objects.aget(object_id="s1")
        assert entry.object_repr == "partner/eve, from 192.0.2.1"
