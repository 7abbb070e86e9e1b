"""Does the page of groups say where groups are from, where it is empty?"""

from types import SimpleNamespace

import pytest

from databroker import admin
from databroker.adminsite import group_admin
from databroker.models import Group
from tests.support.admin import AdminPages, text_of
from tests.support.database import row

pytestmark = pytest.mark.usefixtures("database")
PAGE = "databroker/group/"


def pages(**options: object) -> AdminPages:
    return AdminPages(
        admin.register, group_admin.register, options=SimpleNamespace(**{"groups_claim": None, "idp_provider": "oidc", **options})
    )


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "Groups of the claim “groups” count all the same"),
        ({"groups_claim": "roles"}, "Groups of the claim “roles” count all the same"),
        ({"idp_provider": "azure"}, "No claim counts as groups either"),
        ({"groups_claim": ""}, "No claim counts as groups either"),
    ],
)
def test_an_empty_page_says_why_it_is_empty(options: dict[str, object], told: str) -> None:
    text = text_of(pages(**options).get(PAGE))
    assert told in text
    assert "none has been read" in text


def test_where_a_directory_was_read_there_is_nothing_to_explain() -> None:
    row(Group, id="g1", name="engineering")
    text = text_of(pages().get(PAGE))
    assert "engineering" in text
    assert "none has been read" not in text
