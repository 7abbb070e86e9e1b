"""Do rows say what the records say, and nothing that was not said?"""

import pytest

from databroker.models import Group, Session, User
from databroker.records import DIRECTORY_USER, USER, Record
from databroker.rows import Rows, add_group, add_session, add_user


def record(type: str, **data: object) -> Record:
    return Record(type, "oidc/1", data, version=1, modified=0.0)


@pytest.mark.parametrize(
    ("user", "directory_user", "email", "name"),
    [
        ({"email": "new@a.org", "name": "New"}, {"email": "old@a.org", "name": "Old"}, "new@a.org", "New"),
        ({"email": "", "name": ""}, {"email": "old@a.org", "name": "Old"}, "old@a.org", "Old"),
        (None, {"email": "old@a.org", "name": "Old"}, "old@a.org", "Old"),
        ({"email": "new@a.org"}, None, "new@a.org", ""),
    ],
)
def test_a_person_is_described_by_both_records(user, directory_user, email, name):
    rows = Rows()
    add_user(
        rows,
        "oidc/1",
        record(USER, **user) if user is not None else None,
        record(DIRECTORY_USER, **directory_user) if directory_user is not None else None,
    )
    row = rows.written[0]
    assert (row.id, row.email, row.name) == ("oidc/1", email, name)


def test_what_has_no_record_has_no_row():
    rows = Rows()
    add_session(rows, "s", None)
    add_user(rows, "u", None, None)
    add_group(rows, "g", None)
    assert rows.written == []
    assert rows.gone == [(Session, "s"), (User, "u"), (Group, "g")]


def test_only_the_directory_makes_members():
    rows = Rows()
    add_user(rows, "oidc/1", record(USER, group_ids=["admins"]), record(DIRECTORY_USER, group_ids=["b", "a", "b"]))
    assert rows.members == [("oidc/1", "a"), ("oidc/1", "b")]
