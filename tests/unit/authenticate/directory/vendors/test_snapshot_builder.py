"""Snapshot builder: one snapshot without duplicates, with nested groups, and with every size bounded."""

import pytest

from authenticate.directory.snapshot import DirectoryError
from authenticate.directory.vendors import snapshot_builder
from authenticate.directory.vendors.snapshot_builder import DirectoryBuilder, ancestors, entries, parse_id, parse_text


@pytest.mark.parametrize(("value", "id"), [("a", "a"), (7, "7"), ("00u1", "00u1"), ("auth0|é", "auth0|é")])
def test_an_id_is_text_or_a_number(value: object, id: str) -> None:
    assert parse_id({"id": value}) == id


@pytest.mark.parametrize("value", ["", None, True, 1.5, [], {}, "a\nb", " a", "x" * 256, "a\0"])
def test_anything_else_is_no_id(value: object) -> None:
    with pytest.raises(DirectoryError):
        parse_id({"id": value})


@pytest.mark.parametrize("entry", [None, [], "x", 1, {}])
def test_malformed_entry_is_refused(entry: object) -> None:
    with pytest.raises(DirectoryError):
        parse_id(entry)


def test_user_text_is_one_line_of_limited_length() -> None:
    assert parse_text({"name": " Zoë\n東京 \0"}, "name") == "Zoë 東京"
    assert parse_text({"a": "", "b": 5, "c": "C"}, "a", "b", "c") == "C"
    assert len(parse_text({"name": "x" * 1000}, "name")) == snapshot_builder.MAX_NAME_LENGTH


def test_a_page_without_its_list_is_an_error() -> None:
    assert entries([1]) == entries({"data": [1]}, "data") == [1]
    for page in ({}, {"data": {}}, {"data": None}, "x"):
        with pytest.raises(DirectoryError):
            entries(page, "data")


def test_a_deep_chain_of_groups_is_climbed_and_a_circle_ends() -> None:
    parents = {str(number): {str(number + 1)} for number in range(5000)}
    assert len(ancestors("0", parents)) == 5001
    assert ancestors("a", {"a": {"b"}, "b": {"a", "c"}}) == {"a", "b", "c"}


def test_unlisted_group_is_ignored() -> None:
    described = DirectoryBuilder()
    described.add_user("u")
    described.add_group("g")
    described.add_nested("g", "unlisted")
    described.add_members("unlisted", ["u"])
    described.add_members("g", ["u", "u", "unlisted user"])
    snapshot = described.snapshot("okta", "https://corp.okta.com")
    assert {each.issuer for each in (*snapshot.users.values(), *snapshot.groups.values())} == {snapshot.issuer} == {"https://corp.okta.com"}
    assert {user.id: user.group_ids for user in snapshot.users.values()} == {"okta/u": ("g",)}
    assert set(snapshot.groups) == {"g"}


@pytest.mark.parametrize(
    ("name", "fill"),
    [
        ("MAX_USERS", lambda it, number: it.add_user(str(number))),
        ("MAX_GROUPS", lambda it, number: it.add_group(str(number))),
        ("MAX_MEMBERSHIPS", lambda it, number: it.add_members("g", [str(number)])),
    ],
)
def test_held_data_is_bounded(monkeypatch: pytest.MonkeyPatch, name: str, fill) -> None:
    monkeypatch.setattr(snapshot_builder, name, 5)
    described = DirectoryBuilder()
    for number in range(5):
        fill(described, number)
    with pytest.raises(DirectoryError, match="more than 5"):
        fill(described, 5)
