"""Identity that is built from a user's records."""

from typing import Any

import pytest

from authorize.identity.identity_builder import IdentityInputs, build_identity
from authorize.policy.identity import Identity
from config.routes.route_bearer_tokens import JWT
from databroker.claims import flatten_claims
from databroker.records import DirectoryUser, SessionRecord, UserRecord
from foundation.claim_values import NullValues
from tests.support.providers import a_provider
from tests.unit.authorize.policy.policy_texts import answer

ABSENT = object()


def identity(
    *,
    claims: dict[str, Any] | None = None,
    directory_user: DirectoryUser | None = None,
    groups_claim: str | None = "groups",
    facts: Any = None,
    user_claims: Any = (),
    expects_groups: bool = False,
    session_of: str = "oidc",
    **user: Any,
) -> Identity:
    session = SessionRecord("s1", "oidc/1", "1", session_of, 1000.0, 2000.0, claims or {})
    return build_identity(
        IdentityInputs(
            session, UserRecord("oidc/1", claims=dict(user_claims), **user), directory_user or DirectoryUser("oidc/1"), **(facts or {})
        ),
        a_provider(groups_claim=groups_claim or "", expects_groups_claim=expects_groups),
    )


@pytest.mark.parametrize("place", ["user record", "user claims", "session claims"])
@pytest.mark.parametrize(
    ("verified", "usable"),
    [
        (ABSENT, True),
        (None, True),
        (True, True),
        ("true", True),
        ("True", True),
        (1, True),
        (False, False),
        ("false", False),
        ("False", False),
        (" FALSE ", False),
        (0, False),
        ("0", False),
        ("", False),
        ("no", False),
        (0.0, False),
        (2, False),
        ([], False),
        ([True], False),
        ({}, False),
        ("null", False),
    ],
)
def test_an_email_that_is_not_verified_matches_no_rule(place: str, verified: Any, usable: bool) -> None:
    claims_ = {} if verified is ABSENT else {"email_verified": verified}
    user: dict[str, Any] = {"email": "Ann@corp.com"}
    if place == "user record":
        user |= claims_
    elif place == "user claims":
        user["user_claims"] = claims_
    found = identity(claims=claims_ if place == "session claims" else {}, **user)
    assert (found.verified_email, found.email) == ("ann@corp.com" if usable else "", "Ann@corp.com")


def test_external_address_matches_no_rule() -> None:
    assert identity(email="ann@corp.com", session_of="oidc").verified_email == "ann@corp.com"
    found = identity(email="ann@corp.com", session_of=JWT)
    assert (found.verified_email, found.email) == ("", "")


def test_unauthoritative_email_claim_is_ignored() -> None:
    session = SessionRecord("s1", "oidc/1", "1", "oidc", 1000.0, 2000.0, {"email": ["bob@other.com"], "mail": "ann@corp.com"})
    facts = IdentityInputs(session, UserRecord("oidc/1", "ann@corp.com"), None)
    found = build_identity(facts, a_provider(domains=frozenset({"corp.com"})))
    assert (found.verified_email, found.claims["email"]) == ("ann@corp.com", NullValues())


def test_external_claims_are_retained_and_groups_ignored() -> None:
    found = identity(
        claims={"email": "ann@x.com", "mail": "ann@x.com"}, session_of=JWT, facts={"matchable_group_names": frozenset({"Sales"})}
    )
    assert (found.claims["email"], found.claims["mail"], found.group_names) == (("ann@x.com",), ("ann@x.com",), frozenset())
    unverified = identity(claims={"email": "ann@x.com", "mail": "ann@x.com", "email_verified": False}, session_of=JWT).claims
    assert (unverified["email"], unverified["mail"]) == (NullValues(), NullValues())


def test_address_of_other_session_is_not_a_claim() -> None:
    found = identity(claims={"email": "old@corp.com"}, email="new@corp.com", email_verified=True)
    assert (found.verified_email, found.claims["email"]) == ("", NullValues())


def test_an_unverified_email_matches_no_rule_on_the_claim_either() -> None:
    claims = {"email": "ann@corp.com", "email_verified": False}
    found = identity(claims=claims, email="ann@corp.com").claims["email"]
    assert (type(found), found) == (NullValues, ()), "it was given, and is not missing"
    assert "email" not in identity(claims={}, email="ann@corp.com").claims
    assert identity(claims=claims | {"email_verified": True}, email="ann@corp.com").claims["email"] == ("ann@corp.com",)


@pytest.mark.parametrize(
    "email",
    [None, 1, ["ann@corp.com"], {"ann@corp.com": 1}, "ann@corp.com\n", "a" * 65536 + "@corp.com"],
    ids=lambda value: repr(value)[:30],
)
def test_an_email_that_is_none_matches_no_rule(email: Any) -> None:
    assert identity(email=email).verified_email == ""


def test_groups_come_from_the_directory_and_from_the_claim() -> None:
    directory_user = DirectoryUser("oidc/1", group_ids=("d1", "both"))
    found = identity(claims={"groups": ["c1", "both"]}, directory_user=directory_user, facts={"group_names": ("Sales", "c1")})
    assert found.group_ids == {"d1", "both", "c1"}
    assert found.groups == ("d1", "both", "c1", "Sales")


@pytest.mark.parametrize(
    ("claims", "groups_claim", "ids"),
    [
        ({"groups": "one"}, "groups", {"one"}),
        ({"groups": ["a", 1, True, None, "", ["b"], {"c": "d"}]}, "groups", {"a", "1"}),
        ({"groups": {"a": True}}, "groups", set()),
        ({"groups": 7}, "groups", {"7"}),
        ({"realm": {"roles": ["a"]}}, "realm.roles", {"a"}),
        ({"groups": ["a"]}, "roles", set()),
        ({"groups": ["a"]}, "", set()),
        ({"groups": ["a"]}, None, set()),
    ],
)
def test_only_text_in_the_groups_claim_counts(claims: dict[str, Any], groups_claim: str | None, ids: set[str]) -> None:
    assert identity(claims=claims, groups_claim=groups_claim).group_ids == ids


def test_name_equal_to_group_id_of_the_user_is_no_name() -> None:
    found = identity(claims={"groups": ["00g1"]}, facts={"matchable_group_names": frozenset({"00g1", "sales"})})
    assert found.group_names == {"sales"}


@pytest.mark.parametrize(
    ("own", "verified_email", "expected"),
    [
        ({"email": "ann@corp.com"}, "ann@corp.com", "Ann@corp.com"),
        ({}, "ann@corp.com", "Ann@corp.com"),
        ({"email": "zoe@corp.com"}, "", ""),
        ({"email": 7}, "", ""),
        ({"mail": "zoe@corp.com"}, "", ""),
        ({"email": "", "mail": "zoe@corp.com"}, "", ""),
        ({"email": ""}, "", ""),
    ],
)
def test_record_address_counts_for_sessions_started_with_it(own: dict[str, Any], verified_email: str, expected: str) -> None:
    """Another session of the account may have written it."""
    found = identity(email="Ann@corp.com", email_verified=True, claims=own)
    assert (found.verified_email, found.email) == (verified_email, expected)


@pytest.mark.parametrize("name", ["acr", "amr", "auth_time", "sid", "acrs", "loa", "device_trusted", "department"])
def test_a_session_has_no_claim_of_another_one(name: str) -> None:
    """The user's record has the claims of their latest sign-in, which may have been a stronger one."""
    assert not identity(user_claims={name: "strong"}).claims
    assert identity(user_claims={name: "strong"}, claims={name: "weak"}).claims == {name: ("weak",)}


@pytest.mark.parametrize(
    ("auth_time", "authenticated"),
    [(ABSENT, 0.0), (None, 0.0), (400, 400.0), (1000.5, 1000.0), (5000, 1000.0), ("400", 0.0), (True, 0.0), ([400], 0.0), (-5, 0.0)],
)
def test_auth_time_is_the_providers_and_not_after_session_start(auth_time: Any, authenticated: float) -> None:
    assert identity(claims={} if auth_time is ABSENT else {"auth_time": auth_time}).auth_time == authenticated


@pytest.mark.parametrize(
    ("claims", "is_untold"),
    [
        ({"_claim_names": {"groups": "src1"}, "_claim_sources": {"src1": {"endpoint": "https://graph.example/"}}}, True),
        ({"_claim_names": {"groups": "src1"}, "groups": ["g1"]}, True),
        ({"_claim_names": {"address": "src1"}, "groups": ["g1"]}, False),
        ({"_claim_names": "groups"}, False),
        ({"groups": ["g1"]}, False),
        ({}, False),
    ],
)
def test_distributed_groups_claim_makes_groups_incomplete(claims: dict[str, Any], is_untold: bool) -> None:
    assert identity(claims=claims).groups_incomplete is is_untold
    assert not identity(claims=claims, groups_claim=None).groups_incomplete


@pytest.mark.parametrize("claims", [{}, {"groups": []}, {"groups": ["g1"]}])
@pytest.mark.parametrize("groups_claim", [None, "", "groups"])
@pytest.mark.parametrize("expects_groups", [False, True])
@pytest.mark.parametrize(
    ("directory_user", "expects_record", "is_unknown"),
    [
        (None, True, True),
        (None, False, False),
        (DirectoryUser("oidc/1"), True, False),
        (DirectoryUser("oidc/1", group_ids=("d1",)), True, False),
        (DirectoryUser("oidc/1"), False, False),
    ],
)
def test_user_without_directory_record_has_incomplete_groups(
    claims: dict[str, Any],
    groups_claim: str | None,
    expects_groups: bool,
    directory_user: DirectoryUser | None,
    expects_record: bool,
    is_unknown: bool,
) -> None:
    session = SessionRecord("s1", "oidc/1", "1", "oidc", 1000.0, 2000.0, claims)
    facts = IdentityInputs(session, UserRecord("oidc/1"), directory_user)
    found = build_identity(
        facts, a_provider(groups_claim=groups_claim or "", expects_groups_claim=expects_groups, has_group_records=expects_record)
    )
    is_untold_claim = bool(groups_claim) and expects_groups and not claims
    assert found.groups_incomplete is (is_unknown or is_untold_claim)
    assert (answer({"groups": "none of theirs"}, found) is None) is found.groups_incomplete


@pytest.mark.parametrize(
    ("claims", "groups_claim", "is_complete"),
    [
        ({}, "groups", False),
        ({"groups": None}, "groups", False),
        ({"groups": {"a": True}}, "groups", False),
        ({"groups": 7}, "groups", True),
        ({"groups": 7.5}, "groups", False),
        ({"groups": True}, "groups", False),
        ({"groups": ["g1", 7]}, "groups", True),
        ({"groups": ["g1", {"name": "g2"}]}, "groups", False),
        ({"groups": ["g1", None]}, "groups", False),
        ({"groups": [["g1"]]}, "groups", False),
        ({"groups": []}, "groups", True),
        ({"groups": ""}, "groups", True),
        ({"groups": "g1"}, "groups", True),
        ({"groups": ["g1"]}, "groups", True),
        ({"realm_access": {"roles": []}}, "realm_access.roles", True),
        ({"realm_access": {}}, "realm_access.roles", False),
        ({"realm_access": ["roles"]}, "realm_access.roles", False),
        ({"https://corp.example/roles": []}, "https://corp.example/roles", True),
        ({"a": {"b.c": {"d": []}}}, r"a.b\.c.d", True),
        ({"a": {"b.c": {"d": []}}}, "a.b.c.d", False),
        ({"a.b.c": []}, "a.b.c", False),
        ({"a.b": {"c": 1}, "a": {"b": {"c": []}}}, "a.b.c", True),
    ],
)
def test_missing_groups_claim_makes_groups_incomplete(claims: dict[str, Any], groups_claim: str, is_complete: bool) -> None:
    assert identity(claims=claims, groups_claim=groups_claim, expects_groups=True).groups_incomplete is not is_complete
    # Users with groups from a directory need no groups claim.  An unreadable claim still makes their groups incomplete.
    is_missing = groups_claim not in flatten_claims(claims)
    assert identity(claims=claims, groups_claim=groups_claim).groups_incomplete is not (is_complete or is_missing)
    assert not identity(claims=claims, groups_claim="", expects_groups=True).groups_incomplete


@pytest.mark.parametrize("alias", ["mail", "emailaddress", "email_address"])
def test_a_claim_that_is_the_address_elsewhere_counts_as_the_address_does(alias: str) -> None:
    for claims, expected in (
        ({alias: "boss@corp.com", "email_verified": False}, ""),
        ({alias: "boss@corp.com"}, ""),
        ({alias: "boss@corp.com", "email": "ann@corp.com", "email_verified": True}, ""),
        ({alias: ["Ann@corp.com", "boss@corp.com"], "email_verified": True}, ""),
        ({alias: True, "email_verified": True}, ""),
        ({alias: "Ann@corp.com", "email_verified": True}, "Ann@corp.com"),
        ({alias: "Ann@corp.com"}, "Ann@corp.com"),
    ):
        assert "".join(identity(claims=claims, email="ann@corp.com").claims.get(alias, ())) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [("Ann", "Ann"), ("boss@corp.com", ""), ("Boss (corp/boss)", ""), ("ANN@corp.com", "ANN@corp.com"), (7, "")],
)
def test_a_name_that_may_be_another_s_is_none(name: Any, expected: str) -> None:
    found = identity(email="ann@corp.com", name=name)
    assert (found.name, found.display_name) == (expected, "ann@corp.com")
    doubted = identity(email="ann@corp.com", email_verified=False, name=name)
    assert doubted.display_name == (f"{expected} (oidc/1)" if expected == "Ann" else "oidc/1")
