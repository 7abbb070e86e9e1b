"""Whose name is this?  Every kind of caller against every kind of entry, in every place where entries are written."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from authorize.explain.simulation import SimulatedUser, simulate_identity
from authorize.identity.identity_builder import IdentityInputs, build_identity
from authorize.identity.service_account_loader import build_account_identity as account_identity
from authorize.policy.decision import decide
from authorize.policy.identity import Identity
from authorize.service import AuthorizeService
from databroker.records import DirectoryUser, ServiceAccountRecord, SessionRecord, UserRecord
from foundation.crypto.signing_key import SigningKey
from tests.support.options import make_options
from tests.support.providers import a_provider
from tests.unit.authorize.broker import followed_broker
from tests.unit.authorize.builders import make_route, request, table

NOW = 1500.0
CI, OTHER_CI = "https://ci.example.com", "https://ci.example.com/other"
EMAIL = "ann@corp.example"
ADDRESS = {"email": EMAIL, "email_verified": True}
GROUPS = {"groups": ["engineering"]}


def gate_value(sub: str, **claims: Any) -> Identity:
    """A person of the configured provider, as after a sign-in."""
    return _of_records(f"oidc/{sub}", sub, "oidc", claims, str(claims.get("email", "")), "session-1")


def foreign(sub: str, issuer: str = CI, **claims: Any) -> Identity:
    """Named by a token of another issuer; even were its id in our directory."""
    return _of_records(f"{issuer}#{sub}", sub, "jwt", {"iss": issuer, **claims}, str(claims.get("email", "")), "bearer/1")


def _of_records(user_id: str, sub: str, provider: str, claims: dict[str, Any], email: str, session_id: str) -> Identity:
    output = {"sub": sub, **claims}
    session = SessionRecord(session_id, user_id, sub, provider, 1000.0, 9000.0, output)
    in_directory = DirectoryUser(user_id, EMAIL, "", ("engineering",)), ("Engineers",), frozenset({"Engineers"})
    user = in_directory if provider == "jwt" else (DirectoryUser(user_id),)
    facts = IdentityInputs(session, UserRecord(user_id, email, claims.get("email_verified"), "", output), *user)
    return build_identity(facts, a_provider(groups_claim="groups") if provider == "oidc" else None)


def account(name: str, *groups: str) -> Identity:
    return account_identity(ServiceAccountRecord(name, groups, 1000.0, 9000.0, ""), NOW)


# The identity, and the entries below that name it.
CALLERS: dict[str, tuple[Identity, set[str]]] = {
    "our alice": (gate_value("alice"), {"alice", "oidc/alice"}),
    "our alice with an address": (gate_value("alice", **ADDRESS), {"alice", "oidc/alice", EMAIL}),
    "an address that is not verified": (gate_value("mallory", email=EMAIL, email_verified=False), set()),
    "provider's, sub oidc/alice": (gate_value("oidc/alice"), {"oidc/oidc/alice"}),
    "provider's, sub an address": (gate_value(EMAIL), {f"oidc/{EMAIL}"}),
    "provider's, sub google/alice": (gate_value("google/alice"), {"oidc/google/alice"}),
    "provider's, sub jwt/bot": (gate_value("jwt/bot"), set()),
    "provider's, sub issuer#bot": (gate_value(f"{CI}#bot"), set()),
    "provider's, sub service_account/x": (gate_value("service_account/x"), set()),
    "provider's, sub x": (gate_value("x"), {"x"}),
    "foreign alice": (foreign("alice"), {f"{CI}#alice"}),
    "foreign, sub oidc/alice": (foreign("oidc/alice"), set()),
    "foreign, sub an address": (foreign(EMAIL), set()),
    "foreign with an address": (foreign("mallory", **ADDRESS), set()),
    "foreign with our groups": (foreign("mallory", **GROUPS), set()),
    "foreign bot": (foreign("bot"), {f"{CI}#bot"}),
    "bot of another foreign issuer": (foreign("bot", OTHER_CI), set()),
    "foreign, sub service_account/x": (foreign("service_account/x"), set()),
    "foreign, sub issuer#bot": (foreign(f"{CI}#bot", OTHER_CI), set()),
    "service account x": (account("x"), {"service_account/x"}),
    "service account alice": (account("alice"), set()),
}
ENTRIES = (
    "alice", "oidc/alice", "oidc/oidc/alice", EMAIL, f"oidc/{EMAIL}", "google/alice", "oidc/google/alice", "jwt/bot", "bot", "x",
    f"{CI}#bot", f"{CI}#alice", "service_account/x",
)  # fmt: skip

Opens = Callable[[str, Identity], bool]


def by_route(**keys: Any) -> Callable[[Identity], bool]:
    routes = table(make_route(**keys))
    return lambda identity: decide(request(), identity, routes, NOW).is_allowed


PLACES: dict[str, Opens] = {
    "allowed_users": lambda entry, caller: by_route(allowed_users=[entry])(caller),
    "allowed_users among others": lambda entry, caller: by_route(allowed_users=["nobody", entry, "nobody@example.com"])(caller),
    "policy is": lambda entry, caller: by_route(policy=[{"allow": {"user": {"is": entry}}}])(caller),
    "policy in": lambda entry, caller: by_route(policy=[{"allow": {"user": [entry]}}])(caller),
}


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("place", PLACES)
def test_an_entry_names_one_kind_of_thing(caller: str, place: str) -> None:
    identity, named = CALLERS[caller]
    assert {entry for entry in ENTRIES if PLACES[place](entry, identity)} == named & set(ENTRIES)


@pytest.mark.parametrize("caller", CALLERS)
def test_rules_on_provider_users_do_not_apply_to_tokens(caller: str) -> None:
    """ "Not alice" would match every token of another issuer, so a rule applies to such tokens only if it names that issuer."""
    identity, named = CALLERS[caller]
    for entry in ENTRIES:
        is_known = not identity.is_external or entry.startswith(f"{identity.issuer}#")
        if entry == EMAIL and not identity.verified_email:
            is_known = False
        passes = is_known and entry not in named
        assert by_route(policy=[{"allow": {"user": {"not_in": [entry]}}}])(identity) is passes, entry
        open_but = {"allowed_users": [identity.user_id], "policy": [{"deny": {"user": [entry]}}]}
        assert by_route(**open_but)(identity) is passes, entry


@pytest.mark.parametrize("caller", CALLERS)
async def test_the_admin_takes_entries_as_routes_do(caller: str, tmp_path: Path) -> None:
    identity, named = CALLERS[caller]
    async with followed_broker() as (_, replica):
        for entry in ENTRIES:
            options = make_options(tmp_path, admin_allowed_users=[entry], admin_allowed_groups=["engineering", "Engineers"])
            service = AuthorizeService(options, replica, SigningKey.from_options(options), clock=lambda: NOW)
            assert service.may_administer(identity) is (entry in named), entry


@pytest.mark.parametrize(
    "keys",
    [
        {"allowed_groups": ["engineering"]},
        {"allowed_groups": ["Engineers"]},
        {"allowed_domains": ["corp.example"]},
        {"allow_any_authenticated_user": True},
        {"policy": [{"allow": {"groups": "engineering"}}]},
        {"policy": [{"allow": {"groups": {"not_in": ["sales"]}}}]},
        {"policy": [{"allow": {"not": {"groups": {"starts_with": "sal"}}}}]},
        {"policy": [{"allow": {"email": EMAIL}}]},
        {"policy": [{"allow": {"domain": "corp.example"}}]},
        {"policy": [{"allow": {"domain": {"not_in": ["evil.example"]}}}]},
        {"policy": [{"allow": {"acr": "strong"}}]},
        {"allowed_users": [f"{CI}#bot"], "policy": [{"deny": {"groups": "sales"}}]},
    ],
)
def test_foreign_issuer_claims_do_not_apply_to_provider_users(keys: dict[str, Any]) -> None:
    output = {**ADDRESS, **GROUPS, "acr": "strong"}
    assert by_route(**keys)(foreign("bot", **output)) is False
    user = by_route(**{**keys, "allowed_users": ["bot"]} if "allowed_users" in keys else keys)(gate_value("bot", **output))
    assert user is ("Engineers" not in str(keys)), (
        "a provider user with the same claims passes, unless a rule requires the directory's name"
    )


@pytest.mark.parametrize(
    ("keys", "opens"),
    [
        ({"allowed_idp_claims": {"repository": ["a/b"]}}, True),
        ({"policy": [{"allow": {"and": [{"claim/iss": CI}, {"claim/groups": "engineering"}]}}]}, True),
        ({"policy": [{"allow": {"and": [{"claim/iss": CI}, {"claim/email": EMAIL}]}}]}, True),
        ({"policy": [{"allow": {"and": [{"claim/iss": OTHER_CI}, {"claim/groups": "engineering"}]}}]}, False),
    ],
)
def test_claim_rules_apply_to_foreign_tokens(keys: dict[str, Any], opens: bool) -> None:
    assert by_route(**keys)(foreign("bot", repository="a/b", **ADDRESS, **GROUPS)) is opens
    unverified = {**ADDRESS, "email_verified": False}
    assert by_route(**keys)(foreign("bot", repository="a/b", **unverified, **GROUPS)) is (opens and "email" not in str(keys))


def test_foreign_token_has_no_address_and_groups() -> None:
    caller = foreign("bot", **ADDRESS, **GROUPS, name="Ann")
    received = (
        caller.email,
        caller.verified_email,
        caller.directory_email,
        caller.name,
        caller.groups,
        caller.group_ids,
        caller.group_names,
        caller.display_name,
    )
    assert received == ("", "", "", "", (), frozenset(), frozenset(), f"{CI}#bot")


def test_no_two_callers_have_one_id() -> None:
    """Records, logs, the admin and identity headers use this id."""
    people = [
        gate_value("a"),
        gate_value("oidc/a"),
        gate_value(f"{CI}#a"),
        foreign("a"),
        foreign("a", OTHER_CI),
        foreign("other#a"),
        foreign("#a"),
        account("a"),
    ]
    assert len({user.user_id for user in people}) == len(people)


def test_described_user_matches_entry(tmp_path: Path) -> None:
    options = make_options(tmp_path)
    for entry in ENTRIES:
        caller = simulate_identity(SimulatedUser(entry), options)
        assert caller is not None
        assert by_route(allowed_users=[entry])(caller), entry
        others = {other for other in ENTRIES if other != entry and by_route(allowed_users=[other])(caller)}
        assert others == {"alice": {"oidc/alice"}, "oidc/alice": {"alice"}}.get(entry, set()), entry
