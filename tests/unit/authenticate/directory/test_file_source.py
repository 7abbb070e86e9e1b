"""A directory file, in each of its three forms, or every mistake in it."""

from pathlib import Path

import pytest

from authenticate.directory.file_source import parse, read
from databroker.records import DirectoryGroup, DirectoryUser
from foundation.errors import ConfigError
from tests.support.providers import a_provider

PROVIDER = a_provider()

YAML = b"""
users:
  - {id: alice, email: alice@corp.example, name: Alice, groups: [engineering, 42]}
  - {id: okta/bob, groups: [sales]}
  - id: 7
groups:
  - {id: engineering, name: Engineering, email: eng@corp.example}
"""
JSON = b"""{"users": [{"id": "alice", "email": "alice@corp.example", "name": "Alice", "groups": ["engineering", "42"]},
 {"id": "okta/bob", "groups": ["sales"]}, {"id": "7"}],
 "groups": [{"id": "engineering", "name": "Engineering", "email": "eng@corp.example"}]}"""
CSV = b"""kind,id,email,name,groups
user,alice,alice@corp.example,Alice,engineering; 42
,okta/bob,,,sales
user,7,,,
group,engineering,eng@corp.example,Engineering,
"""


@pytest.mark.parametrize(
    ("content", "suffix"), [(YAML, ".yaml"), (YAML, ".yml"), (JSON, ".json"), (CSV, ".csv"), (b"\xef\xbb\xbf" + CSV, ".csv")]
)
def test_three_formats_are_equivalent(content: bytes, suffix: str) -> None:
    snapshot = parse(content, suffix, PROVIDER)
    assert dict(snapshot.users) == {
        "oidc/alice": DirectoryUser("oidc/alice", "alice@corp.example", "Alice", ("42", "engineering")),
        "okta/bob": DirectoryUser("okta/bob", "", "", ("sales",)),
        "oidc/7": DirectoryUser("oidc/7"),
    }
    assert snapshot.groups["engineering"] == DirectoryGroup("engineering", "Engineering", "eng@corp.example")
    # A group that only its members name is known as well.
    assert snapshot.groups["sales"] == DirectoryGroup("sales")


def test_an_empty_directory_is_one() -> None:
    assert parse(b"{}", ".yaml", PROVIDER).users == {}
    assert parse(b"users:\ngroups:\n", ".yaml", PROVIDER).groups == {}


def test_all_mistakes_are_named_at_once() -> None:
    content = b"""
users: [{id: a}, {id: a}, {email: x@y}, {id: [1]}, {id: b, groups: engineering}, {id: c, mail: x}, text,
  {id: true}, {id: d, groups: [[1]]}]
groups: {id: x}
"""
    with pytest.raises(ConfigError) as caught:
        parse(content, ".yaml", PROVIDER)
    assert [problem.key for problem in caught.value.problems] == [
        "groups", "users[2].id", "users[5]", "users[6]", "users[1].id", "users[3].id", "users[4].groups", "users[7].id",
        "users[8].groups[0]",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "suffix"),
    [(b"[]", ".yaml"), (b"a: 1", ".yaml"), (b"{", ".json"), (b"\xff", ".yaml"), (b"!!python/object/apply:os.system [x]", ".yaml"), (b"",
    ".yaml"),
     (b"name\nx", ".csv"), (b"id,colour\nx,y", ".csv"), (b"id\na,b", ".csv"), (b"kind,id\nrobot,x", ".csv"), (b'id\n"a', ".csv")],
)  # fmt: skip
def test_invalid_directory_is_refused(content: bytes, suffix: str) -> None:
    with pytest.raises(ConfigError):
        parse(content, suffix, PROVIDER)


def test_a_file_that_cannot_be_read_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="can't be read"):
        read(tmp_path / "absent.yaml", PROVIDER)
    (tmp_path / "d.yaml").write_bytes(YAML)
    assert len(read(tmp_path / "d.yaml", PROVIDER).users) == 3


CORP = a_provider("corp", is_entry=True)


@pytest.mark.parametrize("id", ["alice", "corp/alice"])
def test_entry_file_applies_to_its_users_and_issuer(id: str) -> None:
    found = parse(f"users: [{{id: {id}, groups: [g, h]}}]\ngroups: [{{id: g, name: G}}]".encode(), ".yaml", CORP)
    assert found.users == {"corp/alice": DirectoryUser("corp/alice", group_ids=("g", "h"), issuer=CORP.issuer)}
    assert found.groups == {"g": DirectoryGroup("g", "G", issuer=CORP.issuer), "h": DirectoryGroup("h", issuer=CORP.issuer)}


@pytest.mark.parametrize("id", ["partner/alice", "corporation/alice", "/alice", "corp/"])
def test_entry_file_cannot_name_users_of_another_entry(id: str) -> None:
    with pytest.raises(ConfigError, match="user of corp"):
        parse(f"users: [{{id: {id}}}]".encode(), ".yaml", CORP)
