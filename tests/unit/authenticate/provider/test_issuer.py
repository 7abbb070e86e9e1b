"""An issuer is compared as exact text; a tenant's issuer is the template with the tenant's GUID, and nothing else."""

from typing import Any

import pytest

from authenticate.provider.issuer import expected_issuer, key_is_for_issuer, matches_issuer
from foundation.errors import ProviderError

PLAIN, SHARED = "https://idp.example", "https://login.example/{tenantid}/v2.0"
TENANT = "11111111-2222-3333-4444-555555555555"
OF_TENANT = f"https://login.example/{TENANT}/v2.0"


def test_a_plain_issuer_has_no_tenants() -> None:
    assert expected_issuer(PLAIN, {"tid": TENANT}) == PLAIN
    assert matches_issuer(PLAIN, PLAIN)
    assert not matches_issuer(PLAIN, PLAIN + "/")


def test_a_shared_issuer_is_one_for_each_tenant() -> None:
    assert expected_issuer(SHARED, {"tid": TENANT}) == OF_TENANT
    assert matches_issuer(SHARED, OF_TENANT)


@pytest.mark.parametrize("tid", [None, "", "common", TENANT.replace("1", "g"), TENANT + "/x", [TENANT], 1, TENANT + "\n"])
def test_a_tenant_is_a_guid(tid: Any) -> None:
    with pytest.raises(ProviderError, match="no tenant"):
        expected_issuer(SHARED, {"tid": tid})
    assert not matches_issuer(SHARED, SHARED.replace("{tenantid}", str(tid)))


def test_shared_issuer_belongs_to_no_single_tenant() -> None:
    for other in (SHARED, f"https://evil.example/{TENANT}/v2.0", OF_TENANT + "/", "https://login.example//v2.0", ""):
        assert not matches_issuer(SHARED, other)


def test_a_key_that_names_its_tenant_signs_for_that_one() -> None:
    assert key_is_for_issuer({}, PLAIN, PLAIN)
    assert key_is_for_issuer({"issuer": OF_TENANT}, SHARED, OF_TENANT)
    assert key_is_for_issuer({"issuer": SHARED}, SHARED, OF_TENANT)
    assert not key_is_for_issuer({"issuer": "https://other.example"}, SHARED, OF_TENANT)
    assert not key_is_for_issuer({"issuer": "https://other.example"}, PLAIN, PLAIN)
