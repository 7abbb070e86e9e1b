"""The page of groups shows the source of each group, and which setting to configure if there is none."""

from pathlib import Path
from typing import Any

import pytest

from config.settings.identity_providers import PLACEHOLDERS
from databroker.admin import group_admin, session_admin
from databroker.models import Group, Membership, User
from tests.support.admin import AdminPages, visible_text
from tests.support.database import row
from tests.support.options import make_options

pytestmark = pytest.mark.usefixtures("database")
PAGE = "databroker/group/"
ISSUER = "https://idp.example.com"
SCIM = {"scim_token": "3fBv7sQx9LkTzN2mWc8RyHd5GpJa6UeE1oXi4bVwZtS="}
OKTA = {"idp_provider": "okta", "idp_provider_url": ISSUER}


def pages(directory: Path, options: dict[str, Any]) -> AdminPages:
    return AdminPages(session_admin.register, group_admin.register, options=make_options(directory, **options))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, f"the claim “groups” of {ISSUER}. "),
        ({"groups_claim": "roles"}, "the claim “roles” of"),
        (SCIM, f"the claim “groups” of {ISSUER} and SCIM of {ISSUER}"),
        ({**SCIM, "groups_claim": ""}, f"No groups yet from SCIM of {ISSUER}."),
        ({"groups_claim": ""}, "Configure scim_token, directory_file or groups_claim."),
        (OKTA, "Configure idp_service_account, scim_token, directory_file"),
    ],
)
def test_empty_page_explains_what_to_configure(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    assert message in visible_text(pages(tmp_path, options).get(PAGE))


def test_each_group_names_its_source_and_is_read_only(tmp_path: Path) -> None:
    row(Group, id="claimed", in_directory=False, from_claim=True)
    row(Group, id="both", name="known", from_claim=True, issuer=ISSUER)
    row(Group, id="pushed", issuer=ISSUER)
    row(Group, id="foreign", issuer="https://another.example")
    row(User, id="oidc/ann", email="ann@a.org")
    row(Membership, user_id="oidc/ann", group_id="claimed", from_directory=False, from_claim=True)
    site = pages(tmp_path, SCIM)
    text = visible_text(site.get(PAGE))
    claim, scim = f"the claim “groups” of {ISSUER}", f"SCIM of {ISSUER}"
    assert f"claimed - - {claim} 1" in text
    assert f"both known - {claim}; {scim} 0" in text
    assert f"pushed - - {scim} 0" in text
    assert "foreign - - the directory of https://another.example," in text
    assert f"from {claim} and {scim}" in text
    assert "only in bearer tokens" in text
    one = visible_text(site.get(f"{PAGE}claimed/change/"))
    assert "ann@a.org" in one
    assert f"come from {claim}" in one
    from_claim = visible_text(site.get(PAGE, origin="claim"))
    assert ("both" in from_claim, "pushed" in from_claim) == (True, False)


def test_a_directory_s_file_is_named_by_its_setting(tmp_path: Path) -> None:
    (tmp_path / "people.json").write_text("[]")
    row(Group, id="g1", name="engineering")
    options = {"directory_file": str(tmp_path / "people.json"), "groups_claim": ""}
    assert "g1 engineering - directory_file 0" in visible_text(pages(tmp_path, options).get(PAGE))


def test_group_of_one_of_several_directories_names_its_directory(tmp_path: Path) -> None:
    keys = {"client_id": "gate", "client_secret": "secret", "domains": []}
    (tmp_path / "people.yaml").write_text("users: []")
    corp = {"id": "corp", "provider": "okta", "url": "https://corp.okta.com", "service_account": '{"api_key": "k"}', **keys}
    partner = {"id": "partner", "provider": "oidc", "url": "https://partner.example", "directory_file": "people.yaml", **keys}
    for id, issuer in (("corp/g", "https://corp.okta.com"), ("partner/g", "https://partner.example"), ("partner/h", "https://old.example")):
        row(Group, id=id, issuer=issuer)
    site = pages(tmp_path, {**dict.fromkeys(PLACEHOLDERS), "identity_providers": [corp, partner]})
    text = visible_text(site.get(PAGE))
    assert "corp/g - - the directory of https://corp.okta.com 0" in text
    assert "partner/g - - directory_file of partner 0" in text
    assert "partner/h - - the directory of https://old.example," in text
    assert "the directory of https://corp.okta.com and directory_file of partner" in text
