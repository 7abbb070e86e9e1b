"""Profile of the user of a session, as JSON and on pages."""

import json

from databroker.records import DIRECTORY_GROUP, DIRECTORY_USER, DirectoryGroup, DirectoryUser
from tests.support.authenticate_site import Site


async def test_profile_json(site: Site) -> None:
    await site.broker.put(DIRECTORY_USER, "oidc/alice", DirectoryUser("oidc/alice", group_ids=("g1", "g2")).to_data())
    await site.broker.put(DIRECTORY_GROUP, "g1", DirectoryGroup("g1", "Admins", "admins@corp.example").to_data())
    browser = site.browser()
    await browser.sign_in()
    profile = json.loads((await browser.get("/.gate/", accept="application/json")).text)
    assert profile["user"] == {"id": "oidc/alice", "name": "Alice Adams", "email": "alice@corp.example", "email_verified": True}
    assert profile["groups"] == [
        {"id": "g1", "name": "Admins", "email": "admins@corp.example"},
        {"id": "g2", "name": "g2", "email": ""},
        {"id": "engineering", "name": "engineering", "email": ""},
    ]
    assert profile["session"]["provider"] == "oidc"
    assert profile["claims"]["sub"] == "alice"


async def test_directory_records_of_another_issuer_are_hidden(site: Site) -> None:
    other = "https://other.example"
    await site.broker.put(DIRECTORY_USER, "oidc/alice", DirectoryUser("oidc/alice", group_ids=("g1",), issuer=other).to_data())
    await site.broker.put(DIRECTORY_GROUP, "engineering", DirectoryGroup("engineering", "Theirs", issuer=other).to_data())
    browser = site.browser()
    await browser.sign_in()
    profile = json.loads((await browser.get("/.gate/", accept="application/json")).text)
    assert profile["groups"] == [{"id": "engineering", "name": "engineering", "email": ""}]
