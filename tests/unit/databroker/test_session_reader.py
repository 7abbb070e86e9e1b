"""A session is valid only while the provider that issued it is configured."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from databroker.grants.grant_records import AccessGrant, GrantSubject, UserGrants
from databroker.records import (
    ACCESS_GRANT,
    DIRECTORY_GROUP,
    DIRECTORY_USER,
    SESSION,
    USER,
    DirectoryGroup,
    DirectoryUser,
    Record,
    SessionRecord,
    UserRecord,
)
from databroker.session_reader import (
    SessionReader,
    active_grants,
    directory_user_for_session,
    group_for_session,
    is_session_issuer,
    user_for_session,
)
from tests.support.options import MINIMAL, make_options
from tests.support.providers import a_provider

ISSUER = MINIMAL["idp_provider_url"]
GUID, OTHER_GUID = "11111111-2222-3333-4444-555555555555", "99999999-2222-3333-4444-555555555555"
MICROSOFT = "https://login.microsoftonline.com"
TENANT = {"idp_provider": "azure", "idp_provider_url": f"{MICROSOFT}/{GUID}/v2.0"}


def record(data: Mapping[str, Any]) -> Record:
    return Record(SESSION, "s1", data, 1, 0.0)


def session(provider: str = "oidc", issuer: str = "", **claims: Any) -> SessionRecord:
    return SessionRecord("s1", f"{provider}/1", "1", provider, 1000.0, 2000.0, claims, issuer=issuer)


@pytest.mark.parametrize(
    ("settings", "found", "counts"),
    [
        ({}, session(issuer=ISSUER), True),
        ({}, session(iss=ISSUER), True),  # as an earlier release has written it
        ({}, session(issuer=ISSUER, iss="https://other.example"), True),
        ({}, session(issuer="https://other.example", iss=ISSUER), False),
        ({}, session(iss="https://other.example"), False),
        ({}, session(), False),
        ({}, session(iss=[ISSUER]), False),
        ({}, session(issuer=f"{ISSUER}/"), False),
        ({}, session("google", ISSUER), False),
        ({"idp_provider": "github", "idp_provider_url": None}, session("github", "https://github.com/login/oauth"), True),
        ({"idp_provider": "github", "idp_provider_url": None}, session("github", "https://git.example.com/login/oauth"), False),
        ({"idp_provider": "github", "idp_provider_url": None}, session("github"), False),
        ({"idp_provider": "azure", "idp_provider_url": None}, session("azure", f"{MICROSOFT}/{GUID}/v2.0"), True),
        ({"idp_provider": "azure", "idp_provider_url": f"{MICROSOFT}/{GUID}/v2.0"}, session("azure", f"{MICROSOFT}/{GUID}/v2.0"), True),
        (
            {"idp_provider": "azure", "idp_provider_url": f"{MICROSOFT}/{GUID}/v2.0"},
            session("azure", f"{MICROSOFT}/{OTHER_GUID}/v2.0"),
            False,
        ),
    ],
)
def test_a_session_is_of_the_configured_issuer_or_none(
    tmp_path: Path, settings: dict[str, Any], found: SessionRecord, counts: bool
) -> None:
    with capture_logs() as logged:
        read = SessionReader(make_options(tmp_path, **settings)).read_valid(record(found.to_data()))
    assert (read is not None) is counts
    assert [entry["event"] for entry in logged] == ([] if counts else ["session ignored: issuer mismatch"])


@pytest.mark.parametrize("changed", [{"issuer": 7}, {"user_id": ""}, {"claims": "none"}, {"expires_at": "soon"}, {"id": "s2"}])
def test_a_record_that_makes_no_sense_is_none(tmp_path: Path, changed: dict[str, Any]) -> None:
    with capture_logs() as logged:
        assert SessionReader(make_options(tmp_path)).read_valid(record({**session(issuer=ISSUER).to_data(), **changed})) is None
    assert logged[0]["event"] == "malformed record ignored"


def test_two_entries_of_one_issuer_are_two_providers() -> None:
    second = session("first", issuer=ISSUER)
    assert is_session_issuer(a_provider("first", url=ISSUER), second)
    assert not is_session_issuer(a_provider("second", url=ISSUER), second)


@pytest.mark.parametrize(("issuer", "name"), [(ISSUER, "Ann"), ("https://other.example", ""), ("", "")])
def test_user_is_described_by_the_session_s_issuer(issuer: str, name: str) -> None:
    user = UserRecord("oidc/1", "ann@corp.com", True, "Ann", {}, issuer=issuer)
    assert user_for_session(session(issuer=ISSUER), Record(USER, "oidc/1", user.to_data(), 1, 0.0)).name == name
    assert user_for_session(session(issuer=ISSUER), None) == UserRecord("oidc/1")


def test_record_of_one_tenant_does_not_describe_another_s_user() -> None:
    user = UserRecord("azure/1", "ceo@corp.com", issuer=f"{MICROSOFT}/{OTHER_GUID}/v2.0")
    assert user_for_session(session("azure", f"{MICROSOFT}/{GUID}/v2.0"), Record(USER, "azure/1", user.to_data(), 1, 0.0)).email == ""


@pytest.mark.parametrize(
    ("directory_issuer", "counts"), [(ISSUER, True), ("https://other.example", False), (f"{ISSUER}/", False), ("", True)], ids=repr
)
def test_directory_describes_users_of_one_issuer(directory_issuer: str, counts: bool) -> None:
    directory_user, group = (
        DirectoryUser("oidc/1", group_ids=("g",), issuer=directory_issuer),
        DirectoryGroup("g", "Sales", issuer=directory_issuer),
    )
    mine = session(issuer=ISSUER)
    assert directory_user_for_session(mine, Record(DIRECTORY_USER, "oidc/1", directory_user.to_data(), 1, 0.0)) == (
        directory_user if counts else None
    )
    assert group_for_session(mine, Record(DIRECTORY_GROUP, "g", group.to_data(), 1, 0.0)) == (group if counts else None)
    assert directory_user_for_session(mine, None) is None is group_for_session(mine, None)


def test_temporary_access_is_of_its_holder_s_own_issuer() -> None:
    access = AccessGrant("a1", "wiki", 1.0, 2.0, "root", "a reason")
    held = UserGrants("oidc/1", ISSUER, "Ann", (access,))
    stored = Record(ACCESS_GRANT, "oidc/1", held.to_data(), 1, 0.0)
    assert active_grants(GrantSubject("oidc/1", ISSUER), stored) == (access,)
    assert active_grants(GrantSubject("oidc/1", "https://other.example.com"), stored) == ()
    assert active_grants(GrantSubject("oidc/2", ISSUER), stored) == ()
    assert active_grants(GrantSubject("oidc/1", ISSUER), None) == ()
