"""Is the person whom an administrator names the one that gate knows, with the data that gate has?"""

from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone

from authorize.explain.find_person import found_person
from authorize.identity.loader import IdentityRecords
from config.settings.identity_providers import IN_PLACE
from databroker.models import Group, Membership, Session, User
from databroker.records import SESSION, Record
from tests.support.database import row
from tests.support.options import make_options
from tests.unit.authorize.builders import user

BOB = user("bob@corp.com", subject="2")
SOURCES = IdentityRecords(Record(SESSION, "s1", {}, 7, 1.0), None, None)
object.__setattr__(BOB, "sources", SOURCES)  # as the loader does


@pytest.fixture
def own(database: None, tmp_path: Path) -> SimpleNamespace:
    async def identity_of_session(session_id: str) -> Any:
        return BOB if session_id == "s1" else None

    row(User, id="oidc/2", email="Bob@corp.com")
    row(Group, id="sales")
    row(Membership, user_id="oidc/2", group_id="sales")
    authorize = SimpleNamespace(identity_of_session=identity_of_session)
    return SimpleNamespace(authorize=authorize, options=make_options(tmp_path))


def session(id: str, hours: int) -> None:
    now = timezone.now()
    row(Session, id=id, user_id="oidc/2", since=now, expires=now + timedelta(hours=hours))


@pytest.mark.parametrize("written", ["bob@corp.com", "BOB@corp.com", "oidc/2"])
def test_a_living_session_says_what_the_next_request_would_have(own: SimpleNamespace, written: str) -> None:
    session("s1", 1)
    found = found_person(written, own)
    assert (found.identity, found.sources, found.note) == (BOB, SOURCES, "")


def test_without_one_the_directory_says_the_groups(own: SimpleNamespace) -> None:
    session("s1", -1)
    found = found_person("bob@corp.com", own)
    assert found.identity is not None
    assert (found.identity.rule_email, found.identity.group_ids) == ("bob@corp.com", {"sales"})
    assert "No session" in found.note


def test_a_stranger_is_nothing_but_the_name(own: SimpleNamespace) -> None:
    found = found_person("eve@corp.com", own)
    assert found.identity is not None
    assert found.identity.group_ids == frozenset()
    assert "nobody of this name" in found.note
    assert found_person("", own).identity is None


def test_groups_of_one_of_several_directories_are_called_as_rules_call_them(own: SimpleNamespace, tmp_path: Path) -> None:
    keys = {"provider": "oidc", "client_id": "gate", "client_secret": "secret"}
    corp = {"id": "corp", "url": "https://corp.example", "domains": ["corp.com"], "groups_claim": "roles", **keys}
    partner = {"id": "partner", "url": "https://partner.example", "domains": [], **keys}
    own.options = make_options(tmp_path, **dict.fromkeys(IN_PLACE), identity_providers=[corp, partner])
    # Partner's directory has somebody with corp's address, who has signed in last.
    row(User, id="partner/1", untold_email="ann@corp.com", last_sign_in=timezone.now())
    row(User, id="corp/1", email="ann@corp.com")
    members = (("corp/1", "corp/sales", True), ("corp/1", "corp/claimed", False), ("partner/1", "partner/x", True))
    for user_id, group, by_directory in members:
        row(Group, id=group)
        row(Membership, user_id=user_id, group_id=group, by_directory=by_directory, by_claim=not by_directory)
    found = found_person("ann@corp.com", own)
    assert found.identity is not None
    assert (found.identity.provider, found.identity.group_ids) == ("corp", {"sales", "corp/claimed"})
