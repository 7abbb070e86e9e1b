"""Are claims read as they were meant, and groups believed of the right people only?"""

from pathlib import Path
from typing import Any

import pytest

from databroker.claims import ProviderClaims, flatten_claims, groups_in, groups_in_flat, nest_claims
from databroker.store.frozen import frozen_data
from foundation.claim_values import ListedValues, NullValues, PartialValues, UnescapedValues
from tests.support.options import make_options
from tests.support.several_providers import several

ISSUER = "https://idp.example.com"


def test_claims_are_flattened_to_dotted_keys() -> None:
    assert flatten_claims({"a": {"b": {"c": [1, "x", True]}, "d": "e"}, "f": 1.5}) == {
        "a": (),
        "a.b": (),
        "a.b.c": (1, "x", True),
        "a.d": ("e",),
        "f": (1.5,),
    }


@pytest.mark.parametrize(
    ("value", "kind", "values"),
    [
        ("a", tuple, ("a",)),
        (False, tuple, (False,)),
        ("", tuple, ("",)),
        (["a"], ListedValues, ("a",)),
        ([], ListedValues, ()),
        (["a", {"name": "b"}], PartialValues, ("a",)),
        ([{"name": "b"}], PartialValues, ()),
        ([["a"]], PartialValues, ()),
        (["a", None], PartialValues, ("a",)),
        ({"since": "2026"}, PartialValues, ()),
        (None, NullValues, ()),
        ({}, NullValues, ()),
        ([None, {}, []], NullValues, ()),
    ],
)
def test_incomparable_value_is_neither_absent_nor_empty(value: Any, kind: type, values: tuple[Any, ...]) -> None:
    found = flatten_claims({"x": value})["x"]
    assert (type(found), found) == (kind, values)
    assert flatten_claims(frozen_data({"x": value}))["x"] == found


def test_the_dot_of_a_name_is_not_the_dot_of_a_path() -> None:
    named, nested = {"realm.role": "admin"}, {"realm": {"role": "user"}}
    assert flatten_claims(named) == {r"realm\.role": ("admin",), "realm.role": ()}
    assert type(flatten_claims(named)["realm.role"]) is UnescapedValues
    assert flatten_claims(named | nested) == {r"realm\.role": ("admin",), "realm": (), "realm.role": ("user",)}
    assert not any(flatten_claims({"a\\": {"b": 1}}).get(path) for path in flatten_claims({"a.b": 1}))
    assert flatten_claims({"https://corp.example/v1.0/roles": ["a"]}) == {"https://corp.example/v1.0/roles": ("a",)}
    assert flatten_claims({"https://corp.example/a.b": {"c": 1}})[r"https://corp.example/a\.b.c"] == (1,)
    two = flatten_claims({"https://corp": {"example/x": "a"}, "https://corp.example/x": "b"})["https://corp.example/x"]
    assert (type(two), two) == (PartialValues, ())


@pytest.mark.parametrize("path", ["team", "realm.role", r"realm\.role", r"a.b\.c.d", "https://corp.example/roles"])
def test_a_claim_is_described_by_the_path_that_a_rule_has(path: str) -> None:
    assert flatten_claims(nest_claims({path: "x"}))[path] == ("x",)
    assert nest_claims({"realm.role": "a", "realm.level": 1, "realm2": {"role": "b"}}) == {
        "realm": {"role": "a", "level": 1},
        "realm2": {"role": "b"},
    }
    with pytest.raises(ValueError, match="is inside another claim"):
        nest_claims({"realm": "a", "realm.role": "b"})


@pytest.mark.parametrize(("claims", "kind", "values"), [({}, NullValues, ()), ({"groups": ["a"]}, PartialValues, ("a",))])
def test_claim_stored_elsewhere_is_unknown(claims: dict[str, Any], kind: type, values: tuple[Any, ...]) -> None:
    found = flatten_claims({"_claim_names": {"groups": "src1"}, **claims})["groups"]
    assert (type(found), found) == (kind, values)


def test_deeply_nested_claims_are_no_trouble() -> None:
    claims: dict[str, Any] = {"end": 1}
    for _ in range(3000):
        claims = {"a": claims}
    assert [values for values in flatten_claims(claims).values() if values] == [(1,)]


@pytest.mark.parametrize(
    ("claims", "groups"),
    [
        ({}, ()),
        ({"groups": "one"}, ("one",)),
        ({"groups": ["a", 1, None, "", "b", "a", True, 2.0]}, ("a", "1", "b")),
        ({"groups": 1001}, ("1001",)),
        ({"groups": {"a": 1}}, ()),
        ({"_claim_names": {"groups": "src1"}}, ()),
    ],
)
def test_groups_are_the_texts_in_the_claim(claims: dict[str, Any], groups: tuple[str, ...]) -> None:
    assert groups_in(claims, "groups") == groups
    assert groups_in(claims, "") == ()
    assert groups_in_flat({"": ("admin",)}, "") == groups_in({"": ["admin"]}, "") == (), "a claim may have an empty name"


def test_the_claim_may_stand_inside_another() -> None:
    assert groups_in({"realm_access": {"roles": ["admin"]}}, "realm_access.roles") == ("admin",)


@pytest.mark.parametrize(
    ("user_id", "user", "groups"),
    [
        ("oidc/ann", {"claims": {"groups": ["a"]}, "issuer": ISSUER}, ("a",)),
        ("oidc/ann", {"claims": {"groups": ["a"], "iss": ISSUER}}, ("a",)),
        ("oidc/ann", {"claims": {"groups": ["a"]}}, ()),  # the issuer is unknown
        ("oidc/ann", {"claims": {"groups": ["a"]}, "issuer": "https://another.example"}, ()),
        ("okta/ann", {"claims": {"groups": ["a"]}, "issuer": ISSUER}, ()),
        ("oidc/ann", {"claims": 7, "issuer": 7}, ()),
        ("oidc/ann", {}, ()),
    ],
)
def test_groups_of_a_user_come_from_the_configured_issuer(
    tmp_path: Path, user_id: str, user: dict[str, Any], groups: tuple[str, ...]
) -> None:
    assert ProviderClaims.from_options(make_options(tmp_path)).read_groups(user_id, user) == groups
    assert ProviderClaims.from_options(make_options(tmp_path, groups_claim="")).read_groups(user_id, user) == ()


def test_same_configuration_loaded_again_counts_the_same(tmp_path: Path) -> None:
    """Otherwise every reload would rebuild the admin's tables."""
    icon = tmp_path / "icon.svg"
    icon.write_text('<svg xmlns="http://www.w3.org/2000/svg"/>')
    providers = several("corp", "partner")
    providers["identity_providers"][0] |= {"directory_file": str(tmp_path / "people.yaml"), "icon": str(icon)}
    (tmp_path / "people.yaml").write_text("users: []\n")
    first, second = (ProviderClaims.from_options(make_options(tmp_path, **providers)) for _ in range(2))
    assert first == second
    providers["identity_providers"][1]["domains"] = ["another.example"]
    assert first != ProviderClaims.from_options(make_options(tmp_path, **providers))
