"""Linked accounts: who is one person by which word, and what of one account never becomes another's."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from authorize.config_checks import CONFIG_CHECKS
from authorize.explain.simulation import SimulatedUser, simulate_identity
from authorize.identity.identity_builder import IdentityInputs, build_identity, linked_id_for
from authorize.identity.identity_loader import IdentityLoader
from authorize.policy.decision import Outcome, decide
from authorize.policy.identity import Identity
from authorize.upstream.identity_header_templates import IdentityVariables
from authorize.upstream.identity_headers import attested_claims
from config.loader import check_configuration
from config.provider_config import ProviderConfig
from config.settings.linked_accounts import VERIFIED_EMAIL
from databroker.grants.grant_records import AccessGrant, UserGrants
from databroker.records import ACCESS_GRANT, SESSION, USER, DirectoryUser, SessionRecord, UserRecord
from databroker.session_reader import SessionReader
from tests.support.options import make_options
from tests.support.providers import a_provider
from tests.support.several_providers import several
from tests.unit.authorize.broker import BreakableBroker, followed_broker, settled
from tests.unit.authorize.builders import NOW, make_route, request, table

SHARED = frozenset({"shared.example", "corp.example"})
CORP = a_provider("corp", domains=SHARED, groups_claim="groups", is_only_provider=False, links_by_email=True)
PARTNER = a_provider(
    "partner", url="https://idp.partner.example", domains=frozenset({"shared.example"}), is_only_provider=False, links_by_email=True
)
ANN = "ann@shared.example"
LINKED_ANN = f"{VERIFIED_EMAIL}/{ANN}"
ALLOWED, FORBIDDEN = Outcome.ALLOWED, Outcome.FORBIDDEN
FEDERATED: dict[str, Any] = {"link_by": VERIFIED_EMAIL, "domains": ["shared.example"]}


def records(
    provider: ProviderConfig, email: Any, sub: str = "1", *, verified: Any = True, **claims: Any
) -> tuple[SessionRecord, UserRecord]:
    values = {"sub": sub, "email": email, "email_verified": verified, **claims}
    values = {name: value for name, value in values.items() if value is not None}
    session = SessionRecord("s1", f"{provider.id}/{sub}", sub, provider.id, 1000.0, 2000.0, values, issuer=provider.issuer)
    return session, UserRecord(session.user_id, email or "", verified, "Ann", values, issuer=provider.issuer)


def identity_for(provider: ProviderConfig, email: Any = ANN, sub: str = "1", **extra_claims: Any) -> Identity:
    session, known = records(provider, email, sub, **extra_claims)
    return build_identity(IdentityInputs(session, known, DirectoryUser(session.user_id)), provider)


def outcome(caller: Identity, **keys: Any) -> Outcome:
    return decide(request(), caller, table(make_route(**keys)), NOW).outcome


def test_same_verified_address_links_accounts() -> None:
    found = [identity_for(CORP), identity_for(PARTNER, "ANN@Shared.example", "7")]
    assert [each.principal_id for each in found] == [LINKED_ANN, LINKED_ANN]
    assert [each.user_id for each in found] == ["corp/1", "partner/7"]


@pytest.mark.parametrize(
    ("provider", "email", "extra_claims"),
    [
        (replace(CORP, links_by_email=False), ANN, {}),
        (CORP, ANN, {"verified": False}),
        (CORP, ANN, {"verified": "no"}),
        (CORP, ANN, {"verified": None}),
        (replace(CORP, trusts_email=True), ANN, {"verified": False}),
        (CORP, None, {}),
        (CORP, "ann", {}),
        (CORP, "ann@sub.shared.example", {}),
        (CORP, "ann@shared.example.", {}),
        (CORP, "ann@evil-shared.example", {}),
        (PARTNER, "ann@corp.example", {}),
        (CORP, "ann@shared.example@corp.example", {}),
        (replace(CORP, domains=None), ANN, {}),
        (replace(CORP, domains=frozenset()), ANN, {}),
    ],
)
def test_any_other_account_stays_its_provider_s(provider: ProviderConfig, email: Any, extra_claims: dict[str, Any]) -> None:
    found = identity_for(provider, email, **extra_claims)
    assert (found.linked_id, found.principal_id) == ("", f"{provider.id}/1")


@pytest.mark.parametrize("of_account", [True, False, None])
@pytest.mark.parametrize("of_session", [True, False, None])
@pytest.mark.parametrize("trusts", [True, False])
def test_address_links_if_one_source_verifies_and_none_denies(of_account: bool | None, of_session: bool | None, trusts: bool) -> None:
    """Without `email_verified` an address is unverified, unless the operator vouches for the provider's addresses."""
    session, _ = records(CORP, ANN, verified=of_session)
    _, account = records(CORP, ANN, verified=of_account)
    verifications = {of_account, of_session} - {None}
    linked = linked_id_for(account, session.claims, replace(CORP, trusts_email=trusts))
    assert linked == (LINKED_ANN if verifications == {True} or (trusts and not verifications) else "")


def test_rules_apply_to_address_with_unknown_verification() -> None:
    """An operator who writes an address into a rule knows the provider; what links makes an identity of it, at applications too."""
    silent = identity_for(CORP, verified=None)
    assert (silent.verified_email, silent.linked_id) == (ANN, "")
    assert outcome(silent, allowed_users=[ANN]) is ALLOWED


def test_confusable_addresses_are_not_linked() -> None:
    assert identity_for(CORP, "\u212aate@shared.example").principal_id != identity_for(PARTNER, "kate@shared.example").principal_id
    assert identity_for(CORP, "ann+x@shared.example").principal_id != identity_for(PARTNER).principal_id


def test_changed_address_is_not_linked() -> None:
    """Another browser has signed in since: the record of the person is newer than this session's claims."""
    session, _ = records(CORP, "old@shared.example")
    _, newer = records(CORP, ANN)
    assert linked_id_for(newer, session.claims, CORP) == ""
    assert linked_id_for(newer, {}, CORP) == LINKED_ANN


def test_external_identity_is_not_linked() -> None:
    session, known = records(CORP, ANN)
    foreign = replace(session, provider="jwt", user_id="https://ci.example.com#1", issuer="https://ci.example.com")
    found = build_identity(IdentityInputs(foreign, replace(known, id=foreign.user_id), None), None)
    assert (found.linked_id, found.principal_id) == ("", "https://ci.example.com#1")


def test_applications_receive_user_and_account_claims() -> None:
    for caller, subject in (
        (identity_for(CORP, groups=["engineering"], team="a"), "1"),
        (identity_for(PARTNER, sub="7", groups=["admins"]), "7"),
    ):
        attested = attested_claims(caller, "gate", "app", caller.groups)
        assert (attested["sub"], attested["user"], attested["email"]) == (LINKED_ANN, LINKED_ANN, ANN)
        assert attested["groups"] == (["engineering"] if caller.provider == "corp" else [])
        assert IdentityVariables(caller, attested, "").value("user") == LINKED_ANN
        assert caller.subject == subject
        assert caller.claims.get("team", ()) == (("a",) if caller.provider == "corp" else ())


@pytest.mark.parametrize(
    ("keys", "of_corp", "of_partner"),
    [
        ({"allowed_users": [ANN]}, ALLOWED, ALLOWED),
        ({"allowed_users": ["corp/1"]}, ALLOWED, FORBIDDEN),
        ({"allowed_groups": ["engineering"]}, ALLOWED, FORBIDDEN),
        ({"policy": [{"allow": {"provider": "corp"}}]}, ALLOWED, FORBIDDEN),
        ({"identity_providers": ["partner"], "allow_any_authenticated_user": True}, FORBIDDEN, ALLOWED),
        ({"policy": [{"deny": {"user": ANN}}, {"allow": {"provider": {"in": ["corp", "partner"]}}}]}, FORBIDDEN, FORBIDDEN),
        ({"policy": [{"deny": {"user": "corp/1"}}, {"allow": {"provider": {"in": ["corp", "partner"]}}}]}, FORBIDDEN, ALLOWED),
    ],
)
def test_rules_are_unchanged_by_linking(keys: dict[str, Any], of_corp: Outcome, of_partner: Outcome) -> None:
    for links in (True, False):
        corp, partner = (replace(each, links_by_email=links) for each in (CORP, PARTNER))
        assert outcome(identity_for(corp, groups=["engineering"]), **keys) is of_corp
        assert outcome(identity_for(partner), **keys) is of_partner


@pytest.fixture
def settings() -> dict[str, Any]:
    made = several("corp", "partner")
    return {**made, "identity_providers": [{**each, **FEDERATED} for each in made["identity_providers"]]}


@pytest.mark.parametrize("written", [LINKED_ANN, f"{VERIFIED_EMAIL}/nobody"])
@pytest.mark.parametrize(
    ("place", "keys"),
    [
        ("policy[0].allowed_users[0]", lambda written: {"policy": [route(allowed_users=[written])]}),
        ("policy[0].policy[0].deny.user", lambda written: {"policy": [route(policy=[{"deny": {"user": written}}, ALL_USERS])]}),
        ("admin_allowed_users[0]", lambda written: {"admin_allowed_users": [written]}),
    ],
)
def test_rules_never_match_linked_ids(tmp_path: Path, settings: dict[str, Any], place: str, keys: Any, written: str) -> None:
    make_options(tmp_path, **settings)
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **keys(written)}))
    found = {problem.key: problem.message for problem in check_configuration(path, {}, CONFIG_CHECKS).errors}
    assert list(found) == [place]
    assert "is the id that" in found[place]


ALL_USERS = {"allow": {"provider": {"in": ["corp", "partner"]}}}


def route(**keys: Any) -> dict[str, Any]:
    return {"from": "https://a.example.com", "to": "http://a", **keys}


def test_described_user_gets_the_headers_of_a_signed_in_one(tmp_path: Path, settings: dict[str, Any]) -> None:
    found = simulate_identity(SimulatedUser(ANN), make_options(tmp_path, **settings))
    assert found is not None
    assert found.principal_id == LINKED_ANN
    unverified = simulate_identity(SimulatedUser(ANN, claims={"email_verified": False}), make_options(tmp_path, **settings))
    assert unverified is not None
    assert unverified.linked_id == ""


@pytest.fixture
async def world(tmp_path: Path, settings: dict[str, Any]) -> AsyncIterator[tuple[BreakableBroker, IdentityLoader]]:
    options = make_options(tmp_path, **settings)
    async with followed_broker() as (broker, replica):
        for id in ("corp", "partner"):
            claims = {"sub": "1", "email": ANN, "email_verified": True}
            issuer = options.providers[id].issuer
            session = SessionRecord(id, f"{id}/1", "1", id, 1000.0, 2000.0, claims, issuer=issuer)
            await broker.put(SESSION, id, session.to_data())
            await broker.put(USER, session.user_id, UserRecord(session.user_id, ANN, True, "Ann", claims, issuer=issuer).to_data())
        yield broker, IdentityLoader(replica, SessionReader(options), uses_grants=True)


async def give(broker: BreakableBroker, id: str, issuer: str) -> None:
    access = AccessGrant("a1", "wages", 1000.0, 2000.0, "boss", "to look")
    await broker.put(ACCESS_GRANT, id, UserGrants(id, issuer, grants=(access,)).to_data())
    await settled()


async def access(loader: IdentityLoader, session: str) -> set[str]:
    found = await loader.find_browser_identity(session, 1500.0)
    assert found is not None
    return set(found.grants)


async def test_temporary_access_applies_to_each_account_and_ends_with_either(
    world: tuple[BreakableBroker, IdentityLoader],
) -> None:
    broker, loader = world
    assert [await access(loader, id) for id in ("corp", "partner")] == [set(), set()]
    await give(broker, LINKED_ANN, VERIFIED_EMAIL)
    assert [await access(loader, id) for id in ("corp", "partner")] == [{"wages"}, {"wages"}]
    await broker.delete(ACCESS_GRANT, LINKED_ANN)
    await settled()
    assert [await access(loader, id) for id in ("corp", "partner")] == [set(), set()]


@pytest.mark.parametrize(
    ("id", "issuer"), [("corp/1", "https://idp.corp.example"), (LINKED_ANN, "https://idp.corp.example"), (LINKED_ANN, "")]
)
async def test_grant_of_account_before_linking_is_ignored(world: tuple[BreakableBroker, IdentityLoader], id: str, issuer: str) -> None:
    broker, loader = world
    await give(broker, id, issuer)
    assert [await access(loader, each) for each in ("corp", "partner")] == [set(), set()]


async def test_losing_address_loses_its_grants(world: tuple[BreakableBroker, IdentityLoader]) -> None:
    broker, loader = world
    await give(broker, LINKED_ANN, VERIFIED_EMAIL)
    assert await access(loader, "corp") == {"wages"}
    record = await broker.get(USER, "corp/1")
    assert record is not None
    await broker.put(USER, "corp/1", {**record.data, "email": "other@shared.example"})
    await settled()
    assert [await access(loader, id) for id in ("corp", "partner")] == [set(), {"wages"}]
