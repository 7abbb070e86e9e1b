"""People by the API, each with their groups."""

from databroker.models import Group, Membership, User
from tests.support.api_site import ApiSite
from tests.support.database import in_database, row


def _make() -> None:
    for name in ("alice", "bob", "carol"):
        row(User, id=f"oidc/{name}", email=f"{name}@example.com", name=name.title())
    row(Group, id="g1", name="Guides")
    for user, group, by_claim in (("alice", "g1", False), ("alice", "g2", True), ("bob", "g1", False)):
        row(Membership, user_id=f"oidc/{user}", group_id=group, by_claim=by_claim, by_directory=not by_claim)


async def found(api: ApiSite, query: str) -> list[str]:
    return [item["id"] for item in (await api.done("GET", f"people?{query}"))["items"]]


async def test_people_are_listed_with_their_groups(api: ApiSite) -> None:
    await in_database(_make)
    page = await api.done("GET", "people?limit=1")
    (alice,) = page["items"]
    assert (alice["id"], alice["email"], alice["last_sign_in"], alice["group_count"]) == ("oidc/alice", "alice@example.com", None, 2)
    assert alice["groups"] == [
        {"id": "g1", "name": "Guides", "by_directory": True, "by_claim": False},
        {"id": "g2", "name": "", "by_directory": False, "by_claim": True},
    ]
    assert await found(api, f"cursor={page['next']}") == ["oidc/bob", "oidc/carol"]


async def test_people_are_found_by_what_is_known_of_them(api: ApiSite) -> None:
    await in_database(_make)
    assert await found(api, "id=oidc/bob") == ["oidc/bob"]
    assert await found(api, "email=carol@example.com") == ["oidc/carol"]
    assert await found(api, "group=g1") == ["oidc/alice", "oidc/bob"]
    assert await found(api, "q=guides") == ["oidc/alice", "oidc/bob"]
    assert await found(api, "q=guides&id=oidc/bob") == ["oidc/bob"]
    assert await found(api, "id=oidc/%E2%80%AEbob") == []
    assert await found(api, "q=%25_%27%22%5C") == []
