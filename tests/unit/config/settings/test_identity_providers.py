"""Several identity providers: what an entry says, and which configurations would leave open whose word something is."""

from pathlib import Path
from typing import Any

import pytest

from config.settings.identity_providers import MAX_PROVIDERS, PLACEHOLDERS
from config.settings.provider_entry import RESERVED_IDS
from tests.unit.config.conftest import Load, Problems

WITHOUT = dict.fromkeys(PLACEHOLDERS)
TENANT = "11111111-2222-3333-4444-555555555555"
MICROSOFT = "https://login.microsoftonline.com"
APP = {"from": "https://app.example.com", "to": "http://a"}


def entry(name: str = "corp", **more: Any) -> dict[str, Any]:
    defaults = {"provider": "oidc", "url": f"https://idp.{name}.example", "client_id": "gate", "client_secret": f"secret-of-{name}"}
    return {"id": name, **defaults, "domains": [f"{name}.example"], **more}


def several(*entries: dict[str, Any], **settings: Any) -> dict[str, Any]:
    return {**WITHOUT, "identity_providers": list(entries) or [entry("corp"), entry("partner")], **settings}


def without(made: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in made.items() if key not in keys}


AZURE = without(entry("a", provider="azure"), "url")


def test_each_entry_is_a_provider_by_its_id(load: Load, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("from-a-file\n")
    partner = without(
        entry("partner", client_secret_file="secret", scopes="openid,email", groups_claim="roles", title="Partners"), "client_secret"
    )
    options = load(**several(entry("corp", request_params={}, domains=["Corp.example", "corp.example"]), partner))
    corp, other = options.providers.values()
    assert list(options.providers) == ["corp", "partner"]
    assert (corp.kind, corp.issuer, corp.client_secret.reveal(), corp.request_params) == (
        "oidc",
        "https://idp.corp.example",
        "secret-of-corp",
        {},
    )
    assert (corp.domains, corp.groups_claim, corp.expects_groups_claim, corp.is_only_provider, corp.display_name) == (
        {"corp.example"},
        "",
        False,
        False,
        "corp",
    )
    assert (other.client_secret.reveal(), other.scopes, other.request_params) == ("from-a-file", ("openid", "email"), None)
    assert (other.groups_claim, other.expects_groups_claim, other.has_group_records, other.display_name) == (
        "roles",
        True,
        False,
        "Partners",
    )


def test_only_one_entry_may_be_authoritative_for_any_address(load: Load) -> None:
    (provider,) = load(**several(without(entry(), "domains"))).providers.values()
    assert (provider.domains, provider.is_only_provider) == (None, True)
    assert provider.owns_domain("anything.example")


def test_domain_matches_completely(load: Load) -> None:
    corp = load(**several()).providers["corp"]
    assert corp.owns_domain("corp.example")
    assert not any(map(corp.owns_domain, ("sub.corp.example", "evil-corp.example", "example", "", "partner.example")))
    assert not load(**several(entry(), entry("partner", domains=[]))).providers["partner"].owns_domain("partner.example")


@pytest.mark.parametrize(
    ("entries", "place", "message"),
    [
        ([], "identity_providers", "from 1 to"),
        ([entry(), entry("partner", id="corp")], "identity_providers[1].id", "identity_providers[0]"),
        (
            [entry(), entry("partner", url="https://idp.corp.example")],
            "identity_providers[1].url",
            "identity_providers[0]",
        ),
        (
            [entry(), AZURE, entry("b", provider="azure", url=f"{MICROSOFT}/{TENANT}/v2.0")],
            "identity_providers[2].url",
            "identity_providers[1]",
        ),
        (
            [entry("b", provider="azure", url=f"{MICROSOFT}/{TENANT}/v2.0"), AZURE],
            "identity_providers[1].url",
            "identity_providers[0]",
        ),
        (
            [entry("a", provider="azure", url=f"{MICROSOFT}/organizations/v2.0"), without(entry("b", provider="azure"), "url")],
            "identity_providers[1].url",
            "identity_providers[0]",
        ),
        ([entry(), without(entry("partner"), "domains")], "identity_providers[1].domains", "is required with several"),
        ([without(entry(), "client_secret")], "identity_providers[0].client_secret", "is required: the provider"),
        ([without(entry(), "client_id")], "identity_providers[0].client_id", "is required: the provider"),
        ([without(entry(), "url")], "identity_providers[0].url", "is required"),
        ([entry(scopes=["email"])], "identity_providers[0].scopes", "must contain openid"),
        ([entry(id="Corp")], "identity_providers[0].id", "must be a short"),
        ([entry(id="a/b")], "identity_providers[0].id", "must be a short"),
        ([entry(id="corp\n")], "identity_providers[0].id", "line break"),
        ([entry(id="co\nrp")], "identity_providers[0].id", "control characters"),
        *(([entry(id=id)], "identity_providers[0].id", "is reserved") for id in sorted(RESERVED_IDS - {""})),
        ([entry(domains=["*.corp.example"])], "identity_providers[0].domains", "is not a domain"),
        ([entry(domains=["bücher.example"])], "identity_providers[0].domains", "xn--"),
        ([entry(domains=["@corp.example"])], "identity_providers[0].domains", "is not a domain"),
        ([entry(request_params={"state": "x"})], "identity_providers[0].request_params", "is set by gate"),
        ([entry(titel="Corp")], "identity_providers[0].titel", "Did you mean title?"),
        ([entry(issuer="https://x.example")], "identity_providers[0].issuer", "is named `url` here"),
        ([entry(icon="corp.gif")], "identity_providers[0].icon", ".png or .svg"),
        ([entry(f"p{number}") for number in range(MAX_PROVIDERS + 1)], "identity_providers", f"{MAX_PROVIDERS} entries"),
    ],
)
def test_ambiguous_authority_is_refused(problems: Problems, entries: list[dict[str, Any]], place: str, message: str) -> None:
    found = problems(**{**WITHOUT, "identity_providers": entries})
    assert list(found) == [place], found
    assert message in found[place]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("idp_provider", "okta"),
        ("idp_provider_url", "https://idp.example.com"),
        ("idp_client_id", "gate"),
        ("idp_client_secret", "secret"),
        ("idp_scopes", ["openid"]),
        ("idp_request_params", {"a": "b"}),
        ("idp_service_account", '{"api_key": "k"}'),
        ("idp_directory_url", "https://graph.example"),
        ("groups_claim", "groups"),
        ("directory_file", "people.yaml"),
        ("scim_token", "a-token-of-32-characters-and-more"),
        ("scim_user_id", "userName"),
        ("scim_group_id", "externalId"),
    ],
)
def test_single_provider_keys_are_refused_alongside_several(problems: Problems, key: str, value: Any) -> None:
    assert key in problems(**{**several(), key: value})


def test_process_without_sign_in_needs_no_client(load: Load) -> None:
    entries = [without(entry(id), "client_id", "client_secret") for id in ("corp", "partner")]
    elsewhere = {
        "services": "authorize",
        "databroker_service_url": "https://databroker.internal:5443",
        "grpc_insecure": True,
        "grpc_address": ":5443",
    }
    assert list(load(**several(*entries), **elsewhere).providers) == ["corp", "partner"]


def test_no_secret_is_displayed(load: Load, problems: Problems) -> None:
    assert "secret-of-corp" not in repr(load(**several()))
    assert "secret-of-corp" not in str(problems(**several(entry(titel="x"), entry("partner", url=""))))


@pytest.mark.parametrize(
    ("route", "place", "message"),
    [
        ({"identity_providers": ["crop"]}, "identity_providers[0]", "Did you mean corp?"),
        ({"policy": [{"allow": {"provider": "nobody"}}]}, "policy[0].allow.provider", "Configured: corp, partner"),
        ({"allowed_idp_claims": {"team": ["a"]}}, "allowed_idp_claims", "can be asserted by"),
        ({"policy": [{"allow": {"claim/team": "a"}}]}, "policy[0].allow.claim/team", "can be asserted by"),
        ({"identity_headers": "oauth2-proxy"}, "identity_headers", "sends preferred_username"),
        ({"set_request_headers": {"X-User": "${claim.upn}"}}, "set_request_headers", "sends upn"),
        ({"pass_identity_headers": True}, "pass_identity_headers", "sends nickname"),
        (
            {"allowed_domains": ["a.example"], "access_requests": {"approvers": [{"claim/role": "lead"}]}},
            "access_requests.approvers",
            "can be asserted by",
        ),
        (
            {"access_requests": {"approvers": [{"user": "corp/1"}], "break_glass": {"allowed": [{"provider": "nobody"}]}}},
            "access_requests.break_glass.allowed",
            "unknown provider",
        ),
        ({"bearer_token": "idp_id_token", "allowed_domains": ["corp.example"]}, "bearer_token", "one provider"),
        (
            {"bearer_token": "idp_id_token", "allowed_domains": ["corp.example"], "identity_providers": ["corp", "partner"]},
            "bearer_token",
            "one provider",
        ),
        ({"allow_public_unauthenticated_access": True, "identity_providers": ["corp"]}, "identity_providers", "has no effect"),
        ({"allowed_groups": ["g"]}, "allowed_groups", "scim_token, directory_file or groups_claim"),
    ],
)
def test_route_declares_authoritative_provider(problems: Problems, route: dict[str, Any], place: str, message: str) -> None:
    found = problems(**several(policy=[{**APP, **route}], jwt_claims_headers=["email", "nickname"]))
    assert list(found) == [f"policy[0].{place}"], found
    assert message in found[f"policy[0].{place}"]


@pytest.mark.parametrize(
    "route",
    [
        {"identity_providers": ["corp"], "allowed_idp_claims": {"team": ["a"]}},
        {"identity_providers": ["corp"], "policy": [{"allow": {"claim/team": "a"}}]},
        {"identity_providers": ["corp"], "bearer_token": "idp_id_token", "allow_any_authenticated_user": True},
        {"identity_providers": ["corp"], "identity_headers": "remote-user", "allowed_domains": ["corp.example"]},
        {"identity_headers": "cloudflare", "set_request_headers": {"X-Who": "${user}"}, "allowed_domains": ["corp.example"]},
        {"policy": [{"allow": {"and": [{"provider": "corp"}, {"domain": "corp.example"}]}}]},
    ],
)
def test_explicit_route_is_accepted(problems: Problems, route: dict[str, Any]) -> None:
    assert problems(**several(policy=[{**APP, **route}])) == {}


def test_github_is_checked_where_its_users_sign_in(problems: Problems) -> None:
    github = {"id": "hub", "provider": "github", "client_id": "c", "client_secret": "s", "domains": []}
    strict = {**APP, "allowed_domains": ["corp.example"], "max_age": "15m"}
    assert "policy[0].max_age" in problems(**several(entry(), github, policy=[strict]))
    assert problems(**several(entry(), github, policy=[{**strict, "identity_providers": ["corp"]}])) == {}


TOKEN, NEXT = "0123456789abcdefghijklmnopqrstuv", "vutsrqponmlkjihgfedcba9876543210"
OKTA = {"provider": "okta", "service_account": '{"api_key": "k"}'}


def test_a_directory_is_of_the_entry_that_names_it(load: Load, tmp_path: Path) -> None:
    (tmp_path / "people.yaml").write_text("users: []")
    (tmp_path / "key").write_text("the-key")
    vendor = {"provider": "okta", "service_account_file": "key", "directory_url": "https://api.corp.example/"}
    filed = entry("filed", directory_file="people.yaml")
    options = load(**several(entry("corp", **vendor), filed, entry("none"), policy=[APP | {"allowed_groups": ["g"]}]))
    found = {id: (each.has_directory, each.has_group_records, each.record_id_prefix) for id, each in options.providers.items()}
    assert found == {"corp": (True, True, "corp/"), "filed": (True, False, "filed/"), "none": (False, False, "none/")}
    assert options.providers["corp"].directory_url == "https://api.corp.example"
    assert options.providers["filed"].directory_file == tmp_path / "people.yaml"
    assert "the-key" not in repr(options)


@pytest.mark.parametrize(
    ("keys", "key", "message"),
    [
        ({"service_account": '{"api_key": "k"}'}, "service_account", "oidc has no directory API"),
        ({"provider": "okta", "service_account": "e30="}, "service_account", "With provider: okta it must be base64"),
        ({**OKTA, "directory_url": "http://api.corp.example"}, "directory_url", "must be https"),
        ({"directory_file": "absent.yaml"}, "directory_file", "absent.yaml"),
        ({**OKTA, "directory_file": "people.yaml"}, "directory_file", "cannot be combined with service_account"),
        ({**OKTA, "scim_token": TOKEN}, "scim_token", "cannot be combined with service_account"),
        ({"scim_token": TOKEN, "directory_file": "people.yaml"}, "scim_token", "cannot be combined with directory_file"),
        ({"scim_token": "short"}, "scim_token", "must have at least 32 random ASCII characters"),
    ],
)
def test_unreadable_directory_reports_reason(problems: Problems, tmp_path: Path, keys: dict[str, Any], key: str, message: str) -> None:
    (tmp_path / "people.yaml").write_text("users: []")
    found = problems(**several(entry(**keys)))
    assert list(found) == [f"identity_providers[0].{key}"], found
    assert message in found[f"identity_providers[0].{key}"]


def test_in_split_mode_another_process_may_read_a_vendor_s_directory(load: Load) -> None:
    parts = {"services": "authorize", "databroker_service_url": "http://127.0.0.1:5444", "grpc_address": ":5443"}
    parts["grpc_insecure"] = "true"
    options = load(**several(entry("a", provider="okta"), entry("b", provider="okta", groups_claim="roles"), entry("c"), **parts))
    assert {id: each.has_directory for id, each in options.providers.items()} == {"a": True, "b": False, "c": False}
    assert options.providers["a"].has_group_records


def test_push_sender_is_identified_by_token(load: Load, problems: Problems, tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text(f"{NEXT}\n{TOKEN}\n")
    corp = entry("corp", scim_token=TOKEN, scim_user_id="userName", scim_group_id="displayName")
    options = load(**several(corp, entry("partner", scim_token=NEXT), entry("none"), policy=[APP | {"allowed_groups": ["g"]}]))
    found = {id: (each.has_scim, each.has_directory, each.has_group_records) for id, each in options.providers.items()}
    assert found == {"corp": (True, True, True), "partner": (True, True, True), "none": (False, False, False)}
    assert [(each.scim_user_id, each.scim_group_id) for each in options.providers.values()][:2] == [
        ("userName", "displayName"),
        ("externalId", "externalId"),
    ]
    assert TOKEN not in repr(options.providers)
    for more, key in (({"scim_token": [NEXT, TOKEN]}, "scim_token"), ({"scim_token_file": "tokens"}, "scim_token_file")):
        refused = problems(**several(corp, entry("partner", **more)))
        assert list(refused) == [f"identity_providers[1].{key}"]
        assert "identity_providers[0]" in refused[f"identity_providers[1].{key}"]
    # Two of one entry, while one is replaced, are no trouble, nor is one of them twice.
    assert problems(**several(entry("corp", scim_token=[TOKEN, NEXT, TOKEN]), entry("partner"))) == {}
