"""Names of attributes, in every spelling that clients use."""

import pytest

from authenticate.scim.attributes import ENTERPRISE, folded, key_in, path_of, values_at


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("userName", ("userName",)),
        ("name.givenName", ("name", "givenName")),
        ("urn:ietf:params:scim:schemas:core:2.0:User:name.givenName", ("name", "givenName")),
        ("URN:ietf:params:scim:schemas:core:2.0:Group:displayName", ("displayName",)),
        (ENTERPRISE, (ENTERPRISE,)),
        (f"{ENTERPRISE}:manager.value", (ENTERPRISE, "manager", "value")),
    ],
)
def test_a_name_is_a_path(name: str, path: tuple[str, ...]) -> None:
    assert path_of(name) == path


def test_values_of_a_list_are_those_of_its_elements() -> None:
    emails = [{"Value": "a"}, {"value": "b"}, {}, "x"]
    assert values_at({"emails": emails}, ("EMAILS", "value")) == ["a", "b"]
    assert values_at({"name": "x"}, ("name", "givenName")) == []


def test_case_counts_in_ids_only() -> None:
    assert folded(("externalId",), "Ab") == "Ab"
    assert folded(("members", "value"), "Ab") == "Ab"
    assert folded(("userName",), "Ab") == "ab"
    assert folded(("active",), True) is True


def test_a_key_is_found_in_any_case() -> None:
    assert key_in({"userName": 1}, "username") == "userName"
    assert key_in({}, "userName") == "userName"
