"""Entra ID: whose `oid`, whose tenant, whose address."""

from pathlib import Path
from typing import Any

import pytest

from authenticate.provider.kinds.kind_registry import build_provider
from foundation.errors import ProviderError
from tests.support.options import make_options

OWN_TENANT = "https://login.microsoftonline.com/11111111-2222-3333-4444-555555555555/v2.0"


def provider(tmp_path: Path, url: str | None = None) -> Any:
    return build_provider(make_options(tmp_path, idp_provider="azure", idp_provider_url=url).first_provider)


def test_user_is_identified_by_oid(tmp_path: Path) -> None:
    assert provider(tmp_path).user({"sub": "pairwise", "oid": "the-oid"}, 1.0).id == "azure/the-oid"
    assert provider(tmp_path).user({"sub": "pairwise"}, 1.0).id == "azure/pairwise"


@pytest.mark.parametrize("oid", ["", None, 5, ["x"], "a\n", "a" * 300])
def test_malformed_oid_is_rejected(tmp_path: Path, oid: Any) -> None:
    with pytest.raises(ProviderError, match="oid"):
        provider(tmp_path).user({"sub": "pairwise", "oid": oid}, 1.0)


@pytest.mark.parametrize("url", ["https://login.microsoftonline.com/organizations/v2.0", "https://login.microsoftonline.com/common/v2.0/"])
def test_shared_endpoints_have_an_issuer_for_each_tenant(tmp_path: Path, url: str | None) -> None:
    assert provider(tmp_path, url).issuer.startswith("https://login.microsoftonline.com/{tenantid}/v2.0")


@pytest.mark.parametrize("claims", [{}, {"email_verified": True}, {"xms_edov": False}, {"xms_edov": "no"}, {"xms_edov": [True]}])
def test_any_tenants_word_for_an_address_is_no_proof(tmp_path: Path, claims: dict[str, Any]) -> None:
    claims_ = {"sub": "s", "oid": "o", "email": "ceo@corp.example", **claims}
    assert provider(tmp_path).user(claims_, 1.0).email_verified is False
    assert provider(tmp_path, OWN_TENANT).user(claims_, 1.0).email_verified is not False


@pytest.mark.parametrize("mark", [True, 1, "1", "true"])
def test_an_address_of_a_verified_domain_counts(tmp_path: Path, mark: Any) -> None:
    for url in (None, OWN_TENANT):
        assert provider(tmp_path, url).user({"sub": "s", "email": "a@corp.example", "xms_edov": mark}, 1.0).email_verified is True
    denied = {"sub": "s", "email": "a@corp.example", "xms_edov": mark, "email_verified": False}
    assert provider(tmp_path, OWN_TENANT).user(denied, 1.0).email_verified is False
