"""Provider configuration in the form that the code uses."""

from pathlib import Path

import pytest

from config.provider_config import owned_email_for
from config.settings.authenticate_settings import PROVIDERS
from config.settings.identity_providers import provider_kinds
from config.settings.provider_entry import RESERVED_IDS
from tests.support.options import make_options
from tests.support.several_providers import several


def test_the_scalar_keys_are_one_provider_called_after_its_kind(tmp_path: Path) -> None:
    options = make_options(tmp_path, idp_scopes=["openid", "email"], groups_claim="roles")
    assert list(options.providers) == list(provider_kinds(options)) == ["oidc"]
    provider = options.first_provider
    assert provider is options.providers["oidc"]
    assert (provider.id, provider.kind, provider.url, provider.issuer) == (
        "oidc",
        "oidc",
        "https://idp.example.com",
        "https://idp.example.com",
    )
    assert (provider.client_id, provider.client_secret.reveal()) == ("gate", "client-secret")
    assert (provider.scopes, provider.request_params) == (("openid", "email"), None)
    assert (provider.groups_claim, provider.expects_groups_claim, provider.has_group_records) == ("roles", True, False)


def test_parameters_that_the_operator_writes_replace_those_of_the_kind_also_where_there_are_none(tmp_path: Path) -> None:
    assert make_options(tmp_path, idp_request_params={}).first_provider.request_params == {}


def test_a_provider_shows_no_secret(tmp_path: Path) -> None:
    assert "client-secret" not in repr(make_options(tmp_path).first_provider)


def test_reserved_ids_name_no_provider() -> None:
    assert {"", "jwt", "service_account", "verified_email"} == RESERVED_IDS
    assert RESERVED_IDS.isdisjoint(PROVIDERS)


@pytest.mark.parametrize(
    ("user_id", "email", "is_authoritative"),
    [
        ("corp/1", "ceo@corp.example", True),
        ("corp/1", "CEO@Corp.EXAMPLE", True),
        ("corp/1", "ceo@\uff43orp.example", True),  # a wide "c", which is the same domain
        ("corp/1", "ceo@eu.corp.example", False),
        ("corp/1", "ceo@corp.example@corp.example", False),
        ("corp/1", "corp.example", False),
        ("corp/1", "", False),
        ("corp-2/1", "ceo@corp.example", False),
        ("corp", "ceo@corp.example", True),
        ("cor/1", "ceo@corp.example", False),
        ("CORP/1", "ceo@corp.example", False),
        ("partner/corp/1", "ceo@corp.example", False),
        ("partner/1", "ceo@corp.example", False),
        ("partner/1", "ann@partner.example", True),
        ("gone/1", "ceo@corp.example", False),
    ],
)
def test_provider_is_authoritative_for_its_domain_only(tmp_path: Path, user_id: str, email: str, is_authoritative: bool) -> None:
    options = make_options(tmp_path, **several("corp", "corp-2", "partner"))
    assert owned_email_for(email, user_id, options.providers) == (email if is_authoritative else "")


def test_sole_provider_is_authoritative_for_all_its_users(tmp_path: Path) -> None:
    providers = make_options(tmp_path).providers
    assert [owned_email_for(email, "oidc/1", providers) for email in ("ceo@corp.example", "no address")] == [
        "ceo@corp.example",
        "no address",
    ]
    assert owned_email_for("ceo@corp.example", "okta/1", providers) == "", "a provider that is gone"
