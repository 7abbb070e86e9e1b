"""Limits on a provider's data about one user, over every channel: larger data is refused, and none of it is stored."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from authenticate.provider import claim_limits
from authenticate.provider.claim_limits import MAX_BYTES, MAX_DEPTH, MAX_MEMBERS, ClaimsTooLarge, check_claims, find_excess
from authenticate.session.session_refresh import RefreshStep, SessionEnded
from databroker.records import USER
from tests.support.authenticate_site import Site


def nested(depth: int, make: Callable[[Any], Any]) -> Any:
    value: Any = "end"
    for _ in range(depth):
        value = make(value)
    return value


def in_map(value: Any) -> Any:
    return {"a": value}


def in_list(value: Any) -> Any:
    return [value]


WITHIN: dict[str, dict[str, Any]] = {
    "nothing": {},
    "groups of a large company": {"groups": [f"a group with a long name, number {number:04}" for number in range(1400)]},
    "members": {f"claim-{number}": number for number in range(MAX_MEMBERS)},
    "depth of maps": {"a": nested(MAX_DEPTH - 1, in_map)},
    "depth of lists": {"a": nested(MAX_DEPTH - 1, in_list)},
    "bytes": {"a": "x" * (MAX_BYTES - 10)},
}
BEYOND: dict[str, tuple[dict[str, Any], str]] = {
    "members": ({f"claim-{number}": number for number in range(MAX_MEMBERS + 1)}, "members"),
    "members of many": ({"a": [{"b": 1}] * (MAX_MEMBERS // 2)}, "members"),
    "empty lists": ({"a": [[]] * MAX_MEMBERS}, "members"),
    "maps": ({"a": nested(MAX_DEPTH, in_map)}, "levels"),
    "lists": ({"a": nested(MAX_DEPTH, in_list)}, "levels"),
    "lists too deep for Python": ({"a": nested(800, in_list)}, "levels"),
    "maps too deep for Python": ({"a": nested(465, in_map)}, "levels"),
    "bytes": ({"a": "x" * MAX_BYTES}, "bytes"),
    "bytes of few letters": ({"a": "\u20ac" * (MAX_BYTES // 3)}, "bytes"),
    "numbers": ({"a": list(range(20_000))}, "bytes"),
    "names": ({"x" * MAX_BYTES: 1}, "bytes"),
}


@pytest.mark.parametrize("claims", WITHIN.values(), ids=WITHIN.keys())
def test_within_the_limits_claims_stay_as_they_are(claims: dict[str, Any]) -> None:
    assert check_claims(claims, "a test") is claims


@pytest.mark.parametrize(("claims", "limit"), BEYOND.values(), ids=BEYOND.keys())
def test_beyond_them_the_error_names_sender_and_limit(claims: dict[str, Any], limit: str) -> None:
    with pytest.raises(ClaimsTooLarge, match=f"the identity provider corp sends claims with more than [0-9]+ {limit}"):
        check_claims(claims, "the identity provider corp")


@pytest.mark.parametrize("way", ["claims", "userinfo"])
@pytest.mark.parametrize(("claims", "limit"), BEYOND.values(), ids=BEYOND.keys())
async def test_a_sign_in_with_more_is_a_page_and_stores_nothing(site: Site, way: str, claims: dict[str, Any], limit: str) -> None:
    setattr(site.idp.bend, way, claims)
    with capture_logs() as logs:
        response = await site.browser().sign_in()
    (event,) = [line for line in logs if line["event"] in ("sign-in refused", "sign-in failed at the identity provider")]
    if len(json.dumps(claims)) > MAX_BYTES // 2 and way == "claims":
        assert response.status in (403, 503)  # a token of this size is refused as one
    else:
        assert (response.status, "more data" in response.text) == (403, True)
        assert limit in event["reason"]
        assert "identity provider oidc" in event["reason"]
    assert await site.sessions() == []
    assert await site.broker.page(USER, "", 1) == []


async def test_session_with_growing_claims_ends_at_refresh(site: Site) -> None:
    """Otherwise a user who can make them grow would keep their earlier groups."""
    await site.browser().sign_in()
    (record,) = await site.sessions()
    site.idp.bend.userinfo = BEYOND["members"][0]
    with pytest.raises(SessionEnded, match="members"):
        await site.service.refresh.renew(record.id, RefreshStep.CLAIMS)
    assert await site.sessions() == []


def test_non_objects_are_counted_alike() -> None:
    assert find_excess({"a": ("x",) * 5}) == ""
    assert claim_limits.MAX_DEPTH < 50, "what walks claims by recursion must never reach its end"
