"""No claim of one provider gives access that belongs to users of another."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from authorize.config_checks import CONFIG_CHECKS
from authorize.explain.simulation import SimulatedUser, simulate_identity
from authorize.identity.identity_builder import IdentityInputs, build_identity, verified_email_for
from authorize.policy.decision import Outcome, decide
from authorize.policy.identity import Identity
from authorize.policy.reasons import Reason
from authorize.upstream.identity_headers import attested_claims
from config.loader import check_configuration
from config.provider_config import ProviderConfig
from config.settings.identity_providers import PLACEHOLDERS
from databroker.records import DirectoryUser, SessionRecord, UserRecord
from tests.support.options import make_options
from tests.support.providers import a_provider
from tests.unit.authorize.builders import NOW, make_route, request, table, user

CORP = a_provider("corp", domains=frozenset({"corp.example"}), groups_claim="groups", is_only_provider=False)
PARTNER = a_provider("partner", url="https://idp.partner.example", domains=frozenset({"partner.example"}), is_only_provider=False)
ALLOWED, FORBIDDEN, SIGN_IN = Outcome.ALLOWED, Outcome.FORBIDDEN, Outcome.SIGN_IN


def identity_for(provider: ProviderConfig, email: str, sub: str = "1", then: dict[str, Any] | None = None, **claims: Any) -> Identity:
    """`then` holds the claims that differed when this session started."""
    account_claims = {"sub": sub, "email": email, "email_verified": True, **claims}
    session_claims = {**account_claims, **(then or {})}
    session = SessionRecord("s1", f"{provider.id}/{sub}", sub, provider.id, 1000.0, 2000.0, session_claims, issuer=provider.issuer)
    known = UserRecord(session.user_id, email, True, "Ann", account_claims, issuer=provider.issuer)
    return build_identity(IdentityInputs(session, known, DirectoryUser(session.user_id)), provider)


def outcome(caller: Identity | None, **keys: Any) -> Outcome:
    return decide(request(), caller, table(make_route(**keys)), NOW).outcome


@pytest.mark.parametrize(
    "keys",
    [
        {"allowed_users": ["boss@corp.example"]},
        {"allowed_domains": ["corp.example"]},
        {"policy": [{"allow": {"email": "boss@corp.example"}}]},
        {"policy": [{"allow": {"email": {"ends_with": "@corp.example"}}}]},
        {"policy": [{"allow": {"claim/email": "boss@corp.example"}}]},
    ],
)
def test_address_counts_only_from_authoritative_provider(keys: dict[str, Any]) -> None:
    assert outcome(identity_for(CORP, "boss@corp.example"), **keys) is ALLOWED
    assert outcome(identity_for(PARTNER, "boss@corp.example"), **keys) is FORBIDDEN


@pytest.mark.parametrize(
    "email",
    [
        "boss@corp.example",
        "boss@sub.partner.example",
        "boss@evil-partner.example",
        "boss@corp.example@partner.example",
        "partner.example",
        "",
    ],
)
def test_address_of_unauthorized_provider_is_not_sent(email: str) -> None:
    found = identity_for(PARTNER, email)
    assert (found.email, found.verified_email, found.verified_email_domain, found.display_name) == ("", "", "", "Ann (partner/1)")
    assert found.claims.get("email", ()) == ()
    assert "email" not in attested_claims(found, "gate", "app", ())


@pytest.mark.parametrize(
    "keys",
    [{"allowed_idp_claims": {"email": ["boss@corp.example"]}}, {"policy": [{"allow": {"claim/email": "boss@corp.example"}}]}],
)
def test_previous_address_needs_authoritative_provider(keys: dict[str, Any]) -> None:
    """A later one of the same person, with an address that is, makes the record of the person, and not of the earlier session."""
    found = identity_for(PARTNER, "ann@partner.example", then={"email": "boss@corp.example"})
    assert (found.verified_email, found.email, found.claims["email"]) == ("", "", ())
    assert outcome(found, identity_providers=["corp", "partner"], **keys) is FORBIDDEN


@pytest.mark.parametrize("name", ["boss@corp.example", "Boss <boss@corp.example>", "boss\uff20corp.example", "boss\ufe6bcorp.example"])
def test_display_name_is_never_another_users_address(name: str) -> None:
    """The decision log and the audit log use this name, which must not equal an address of another user."""
    found = replace(identity_for(PARTNER, "boss@corp.example"), name=name)
    assert found.display_name == "partner/1"


def test_authoritative_address_is_released() -> None:
    found = identity_for(PARTNER, "ann@Partner.example")
    assert (found.email, found.verified_email) == ("ann@Partner.example", "ann@partner.example")


def test_an_empty_list_of_domains_is_no_address_at_all() -> None:
    found = identity_for(a_provider("partner", domains=frozenset(), is_only_provider=False), "ann@partner.example")
    assert (found.email, found.verified_email) == ("", "")


def test_deny_by_address_applies_to_unauthoritative_address() -> None:
    keys = {"policy": [{"deny": {"email": "mallory@corp.example"}}, {"allow": {"provider": "partner"}}]}
    assert outcome(identity_for(PARTNER, "mallory@corp.example"), **keys) is FORBIDDEN


def test_groups_come_from_trusted_providers() -> None:
    assert identity_for(CORP, "", groups=["admins"]).group_ids == {"admins"}
    assert identity_for(PARTNER, "", groups=["admins"]).group_ids == frozenset()


@pytest.mark.parametrize("name", ["", "groups", "None", "."])
def test_untrusted_provider_names_no_groups_by_any_claim(name: str) -> None:
    found = identity_for(PARTNER, "", **{name: ["admins"]})
    assert (found.group_ids, found.groups) == (frozenset(), ())
    assert outcome(found, allowed_groups=["admins"]) is FORBIDDEN


@pytest.mark.parametrize("keys", [{"allowed_users": ["1"]}, {"policy": [{"allow": {"user": "1"}}]}])
def test_plain_subject_matches_none_with_several_providers(keys: dict[str, Any]) -> None:
    for provider in (CORP, PARTNER):
        found = identity_for(provider, "")
        assert (found.unqualified_subject, found.is_provider_user) == ("", True)
        assert outcome(found, **keys) is FORBIDDEN
    assert outcome(identity_for(a_provider("corp"), ""), **keys) is ALLOWED


def test_same_subject_at_two_providers_is_two_users() -> None:
    assert outcome(identity_for(CORP, ""), allowed_users=["corp/1"]) is ALLOWED
    assert outcome(identity_for(PARTNER, ""), allowed_users=["corp/1"]) is FORBIDDEN


@pytest.mark.parametrize("sub", ["corp/1", "/1", "../corp/1", "corp/1/", "corp%2F1"])
def test_subject_cannot_imitate_other_provider(sub: str) -> None:
    found = identity_for(PARTNER, "", sub)
    assert found.user_id == f"partner/{sub}"
    assert outcome(found, allowed_users=["corp/1"]) is FORBIDDEN
    assert outcome(found, policy=[{"allow": {"user": "corp/1"}}]) is FORBIDDEN
    assert outcome(found, allowed_users=[f"partner/{sub}"]) is ALLOWED


def test_claims_cannot_imitate_other_provider() -> None:
    """Each claim of an ID token that names a user, an issuer or a group of the other provider."""
    claims = {"iss": CORP.issuer, "aud": "gate", "user": "corp/1", "groups": ["admins"], "roles": ["admins"]}
    found = identity_for(PARTNER, "boss@corp.example", "1", **claims)
    assert (found.user_id, found.provider, found.verified_email, found.groups) == ("partner/1", "partner", "", ())
    for keys in (
        {"allowed_users": ["corp/1", "boss@corp.example"], "allowed_domains": ["corp.example"], "allowed_groups": ["admins"]},
        {"policy": [{"allow": {"or": [{"provider": "corp"}, {"user": "corp/1"}, {"groups": "admins"}, {"domain": "corp.example"}]}}]},
        {"identity_providers": ["corp"], "allowed_idp_claims": {"iss": [CORP.issuer], "roles": ["admins"]}},
    ):
        assert outcome(found, **keys) is FORBIDDEN
    attested = attested_claims(found, "gate", "app", found.groups)
    assert (attested["sub"], attested["user"], attested["groups"], "email" in attested) == ("partner/1", "partner/1", [], False)


def test_same_address_at_two_providers_is_two_users() -> None:
    both = [replace(each, domains=frozenset({"shared.example"})) for each in (CORP, PARTNER)]
    found = [identity_for(each, "ann@shared.example") for each in both]
    assert [each.user_id for each in found] == ["corp/1", "partner/1"]
    assert [outcome(each, allowed_users=["ann@shared.example"]) for each in found] == [ALLOWED, ALLOWED]
    assert [outcome(each, identity_providers=["corp"], allowed_users=["ann@shared.example"]) for each in found] == [ALLOWED, FORBIDDEN]
    unverified = identity_for(both[0], "ann@shared.example", email_verified=False)
    assert outcome(unverified, allowed_users=["ann@shared.example"]) is FORBIDDEN


def test_route_of_one_provider_denies_others() -> None:
    keys: dict[str, Any] = {"identity_providers": ["corp"], "allow_any_authenticated_user": True}
    assert outcome(identity_for(CORP, ""), **keys) is ALLOWED
    assert outcome(None, **keys) is SIGN_IN
    found = decide(request(), identity_for(PARTNER, ""), table(make_route(**keys)), NOW)
    assert (found.outcome, found.trace[-1].reason) == (FORBIDDEN, Reason.OTHER_PROVIDER)


def test_service_account_has_no_provider() -> None:
    program = user("", provider="service_account", subject="deploy", user_id="service_account/deploy")
    assert outcome(program, identity_providers=["corp"], allowed_users=["service_account/deploy"]) is ALLOWED


def test_preflight_passes_identity_providers() -> None:
    facts = {"method": "OPTIONS", "origin": b"https://o.example", "access_control_request_method": b"PUT"}
    routes = table(make_route(identity_providers=["corp"], allow_any_authenticated_user=True, cors_allow_preflight=True))
    assert decide(request(**facts), None, routes, NOW).is_allowed


@pytest.mark.parametrize(
    ("written", "of_corp", "of_partner", "of_a_program"),
    [
        ({"provider": "corp"}, ALLOWED, FORBIDDEN, FORBIDDEN),
        ({"provider": {"in": ["corp", "partner"]}}, ALLOWED, ALLOWED, FORBIDDEN),
        ({"provider": {"not_in": ["corp"]}}, FORBIDDEN, ALLOWED, FORBIDDEN),
    ],
)
def test_the_criterion_provider(written: dict[str, Any], of_corp: Outcome, of_partner: Outcome, of_a_program: Outcome) -> None:
    keys = {"policy": [{"allow": written}]}
    program = user("", provider="service_account", subject="deploy")
    found = [outcome(each, **keys) for each in (identity_for(CORP, ""), identity_for(PARTNER, ""), program)]
    assert found == [of_corp, of_partner, of_a_program]


def entry(id: str) -> dict[str, Any]:
    settings = {"provider": "oidc", "url": f"https://idp.{id}.example", "client_id": "gate", "client_secret": "secret"}
    return {"id": id, **settings, "domains": [f"{id}.example"], "groups_claim": "groups"}


SEVERAL = {**dict.fromkeys(PLACEHOLDERS), "identity_providers": [entry("corp"), entry("partner")]}


@pytest.mark.parametrize(
    ("written", "user_id", "provider", "verified_email"),
    [
        ("ann@partner.example", "", "partner", "ann@partner.example"),
        ("ann@nobody.example", "", "corp", ""),
        ("partner/7", "partner/7", "partner", ""),
        ("gone/7", "gone/7", "", ""),
    ],
)
def test_simulated_user_has_authoritative_provider(tmp_path: Path, written: str, user_id: str, provider: str, verified_email: str) -> None:
    found = simulate_identity(SimulatedUser(written), make_options(tmp_path, **SEVERAL))
    assert found is not None
    assert (found.user_id, found.provider, found.verified_email) == (user_id, provider, verified_email)


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        ({"policy": [{"from": "https://a.example.com", "to": "http://a", "allowed_users": ["alice"]}]}, "policy[0].allowed_users[0]"),
        ({"admin_allowed_users": ["alice"]}, "admin_allowed_users[0]"),
        (
            {"policy": [{"from": "https://a.example.com", "to": "http://a", "policy": [{"allow": {"user": "alice"}}]}]},
            "policy[0].policy[0].allow.user",
        ),
    ],
)
def test_a_subject_alone_is_refused_with_several_providers(tmp_path: Path, settings: dict[str, Any], place: str) -> None:
    make_options(tmp_path, **SEVERAL)
    path = tmp_path / "config.yaml"
    whole = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump({**whole, **settings}))
    found = {problem.key: problem.message for problem in check_configuration(path, {}, CONFIG_CHECKS).errors}
    assert list(found) == [place]
    assert "as in corp/alice" in found[place]


def test_address_rule_matches_authoritative_provider_only() -> None:
    known = UserRecord("partner/1", "boss@corp.example", True, "Mallory", {}, issuer=PARTNER.issuer)
    assert verified_email_for(known, {}, PARTNER) == ""
    assert verified_email_for(known, {}, None) == ""
    assert verified_email_for(UserRecord("corp/1", "boss@corp.example", True), {}, CORP) == "boss@corp.example"
