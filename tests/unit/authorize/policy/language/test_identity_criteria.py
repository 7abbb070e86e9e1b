"""Criteria of the policy language on the identity."""

from typing import Any

import pytest

from authorize.policy.identity import Identity
from databroker.claims import flatten_claims
from foundation.claim_values import ListedValues, NullValues, PartialValues
from tests.unit.authorize.builders import user
from tests.unit.authorize.policy.policy_texts import answer, criterion

UNVERIFIED = user("")


@pytest.mark.parametrize(
    ("written", "caller", "expected"),
    [
        ({"email": "Ann@Corp.com"}, user(), True),
        ({"email": {"ends_with": "@corp.com"}}, user("ann@evil-corp.com"), False),
        ({"email": {"ends_with": "@BÜCHER.example"}}, user("ann@xn--bcher-kva.example"), True),
        ({"email": {"starts_with": "ANN@"}}, user(), True),
        ({"email": {"matches": "ann"}}, user(), False),
        ({"email": {"not_in": ["ann@corp.com"]}}, user(), False),
        ({"email": {"not_in": ["bob@corp.com"]}}, UNVERIFIED, None),
        ({"domain": "corp.com"}, user("ann@sub.corp.com"), False),
        ({"domain": {"ends_with": ".corp.com"}}, user("ann@sub.corp.com"), True),
        ({"domain": {"ends_with": ".corp.com"}}, user("ann@corp.com"), False),
        ({"domain": {"ends_with": ".corp.com"}}, user("ann@evilcorp.com"), False),
        ({"domain": {"not_is": "corp.com"}}, UNVERIFIED, None),
        ({"user": "1"}, user(subject="1"), True),
        ({"user": "ann@corp.com"}, user("x@x.org", subject="ann@corp.com"), False),
        ({"user": {"not_is": "ann@corp.com"}}, UNVERIFIED, None),
        ({"user": {"not_is": "7"}}, UNVERIFIED, True),
        ({"groups": ["g1"]}, user(group_ids=frozenset({"g1"})), True),
        ({"groups": {"starts_with": "pay"}}, user(group_ids=frozenset({"g"}), group_names=frozenset({"payroll"})), True),
        ({"groups": {"not_in": ["g1"]}}, user(), True),
        ({"groups": {"not_in": ["g1"]}}, user(group_ids=frozenset({"g1", "g2"})), False),
        ({"groups": "g1"}, user(groups=("g1",)), False),
        ({"groups": "g1"}, user(group_ids=frozenset({"g1"}), groups_incomplete=True), True),
        ({"groups": {"not_in": ["g1"]}}, user(group_ids=frozenset({"g2"}), groups_incomplete=True), None),
        ({"groups": {"ends_with": "1"}}, user(groups_incomplete=True), None),
        ({"acr": "two"}, user(claims={"acr": ("two",)}), True),
        ({"acr": {"not_is": "one"}}, user(claims={"acr": ("two",)}), True),
        ({"acr": {"not_is": "one"}}, user(), None),
        ({"acr": "1"}, user(claims={"acr": (1,)}), None),
        ({"acr": "two"}, user(claims={"acr": ("two", "one")}), None),
    ],
)  # fmt: skip
def test_identity_criteria(written: dict[str, Any], caller: Identity, expected: bool | None) -> None:
    assert answer(written, caller) is expected
    assert answer(written, None) == "maybe"


@pytest.mark.parametrize(
    ("written", "values", "expected"),
    [
        ("a", ("a",), True),
        (["a", "b"], ("x", "b"), True),
        (1, (True,), False),
        ("1", (1,), False),
        (True, (True,), True),
        ("a", None, None),
        ({"not_is": "a"}, None, None),
        ({"not_in": ["a"]}, ("b", "a"), False),
        ({"not_in": ["a"]}, ("b",), True),
        ({"exists": True}, None, False),
        ({"exists": False}, None, True),
        ({"exists": True}, ("a",), True),
        ({"starts_with": "a"}, ("abc",), True),
        ({"starts_with": "a"}, ("x", 1), None),
        ({"starts_with": "a"}, (1, "abc"), True),
        ({"not_contains": "b"}, ("abc", "x"), False),
    ],
)
def test_claims(written: Any, values: tuple[Any, ...] | None, expected: bool | None) -> None:
    caller = user(claims={} if values is None else {"realm.role": values})
    assert answer({"claim/realm.role": written}, caller) is expected


@pytest.mark.parametrize(
    ("written", "values", "expected"),
    [
        ({"exists": True}, PartialValues(), True),
        ({"exists": False}, PartialValues(), False),
        ({"exists": True}, PartialValues(("a",)), True),
        ({"exists": True}, NullValues(), None),
        ({"exists": False}, NullValues(), None),
        ({"exists": False}, ListedValues(), None),
        ("a", PartialValues(("a",)), True),
        ("b", PartialValues(("a",)), None),
        ({"not_is": "b"}, PartialValues(("a",)), None),
        ({"not_is": "a"}, PartialValues(("a",)), False),
        ({"starts_with": "a"}, PartialValues(("a",)), True),
        ({"starts_with": "b"}, PartialValues(("a",)), None),
        ("b", PartialValues(), None),
        ("b", NullValues(), None),
        ("b", ListedValues(), None),
        ("b", ListedValues(("a",)), False),
    ],
)
def test_a_value_that_can_t_be_compared_is_neither_absent_nor_empty(written: Any, values: tuple[Any, ...], expected: bool | None) -> None:
    assert answer({"claim/suspended": written}, user(claims={"suspended": values})) is expected


DOTTED = flatten_claims({"resource_access": {"my.app": {"roles": ["a"]}, "c.d": {"e.f": "b"}}, "realm": {"role": "c"}})


@pytest.mark.parametrize("should_exist", [True, False])
@pytest.mark.parametrize(
    ("path", "exists"),
    [
        (r"resource_access.my\.app.roles", True),
        (r"resource_access.my\.app", True),
        ("realm.role", True),
        ("realm.other", False),
        ("resource_access.other", False),
        ("resource_access.my.app.roles", None),
        ("resource_access.my.app", None),
        (r"resource_access\.my\.app.roles", None),
        (r"resource_access.c\.d.e\.f", True),
        ("resource_access.c.d.e.f", None),
        (r"resource_access.c\.d.e.f", None),
        (r"realm\.role", None),
    ],
)
def test_claim_with_other_escapes_is_unknown(path: str, exists: bool | None, should_exist: bool) -> None:
    expected = exists if exists is None or should_exist else not exists
    assert answer({f"claim/{path}": {"exists": should_exist}}, user(claims=DOTTED)) is expected
    if exists is None:
        assert answer({f"claim/{path}": {"not_is": "blocked"}}, user(claims=DOTTED)) is None


def test_acr_with_incomparable_value_is_unknown() -> None:
    assert answer({"acr": "two"}, user(claims={"acr": PartialValues(("two",))})) is None
    assert answer({"acr": "two"}, user(claims={"acr": ListedValues(("two",))})) is True


def test_a_claim_that_is_odd_inside_answers_nothing() -> None:
    assert answer({"claim/x": ["a"]}, user(claims={"x": ([],)})) is None


@pytest.mark.parametrize(
    "written",
    [{"email": "ann"}, {"email": "a@b@c"}, {"domain": "a b"}, {"domain": {"ends_with": ".-"}}, {"email": {"ends_with": "@bü cher"}}],
)
def test_impossible_address_or_domain_is_refused(written: dict[str, Any]) -> None:
    with pytest.raises(Exception, match=r"not|ASCII|rule|invalid"):
        criterion(written)
