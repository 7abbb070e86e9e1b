"""Records of temporary access: values that can be stored, and values that cannot."""

import math
from typing import Any

import pytest

from databroker.grants.grant_records import AccessGrant, UserGrants
from databroker.records import ACCESS_GRANT, Record

ACCESS = AccessGrant("a1", "0123456789abcdef wiki", 1000.0, 2000.0, "root", "an incident", "wiki")


def stored(data: dict[str, Any], id: str = "oidc/1") -> Record:
    return Record(ACCESS_GRANT, id, data, 1, 0.0)


def test_stored_value_is_read_back() -> None:
    held = UserGrants("oidc/1", "https://idp.example.com", "ann@corp.com", (ACCESS,))
    assert UserGrants.from_record(stored(held.to_data())) == held


def test_additions_of_later_release_are_skipped() -> None:
    data = {"user_id": "oidc/1", "issuer": "x", "more": 1, "grants": [{**ACCESS.to_data(), "later": True}]}
    assert UserGrants.from_record(stored(data)).grants == (ACCESS,)


@pytest.mark.parametrize(
    "invalid",
    [
        {"expires_at": math.inf},
        {"started_at": math.nan},
        {"expires_at": "tomorrow"},
        {"route": ""},
        {"id": 7},
        {"reason": None, "route": None},
    ],
)
def test_access_without_an_end_or_a_route_is_none(invalid: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        UserGrants.from_record(stored({"user_id": "oidc/1", "issuer": "x", "grants": [{**ACCESS.to_data(), **invalid}]}))


def test_record_belongs_to_its_user() -> None:
    with pytest.raises(ValueError, match="a user"):
        UserGrants.from_record(stored({"user_id": "oidc/2", "issuer": "x"}))
    with pytest.raises(ValueError, match="a user"):
        UserGrants.from_record(stored({"user_id": "oidc/1", "issuer": 3}))
