"""Decisions by the API: the newest first, by everything that the admin finds them by."""

from datetime import UTC, datetime, timedelta

import pytest

from authenticate.api.cursors import encode_cursor
from authorize.models import LoggedDecision
from tests.support.api_site import ApiSite
from tests.support.database import in_database

NOON = datetime(2027, 1, 31, 12, tzinfo=UTC)


def _make() -> None:
    for number, (username, route, outcome) in enumerate([("alice", "wiki", "allow"), ("bob", "wiki", "deny"), ("alice", "pay", "deny")]):
        LoggedDecision.objects.create(
            request_id=f"{number:032x}",
            decided_at=NOON + timedelta(minutes=number),
            user_id=f"oidc/{username}",
            display_name=f"{username}@example.com",
            method="GET",
            url=f"https://{route}.example.com/",
            route_name=route,
            outcome=outcome,
            duration_seconds=0.1,
            snapshot='{"a": "secret"}',
        )


async def found(api: ApiSite, query: str = "") -> list[str]:
    return [item["request_id"][-1] for item in (await api.done("GET", f"decisions?{query}"))["items"]]


async def test_the_newest_decision_comes_first_and_pages_go_back(api: ApiSite) -> None:
    await in_database(_make)
    first = await api.done("GET", "decisions?limit=2")
    assert [item["request_id"][-1] for item in first["items"]] == ["2", "1"]
    assert first["items"][0]["decided_at"] == "2027-01-31T12:02:00Z"
    assert "secret" not in str(first)
    await in_database(_make)  # later decisions do not shift the page
    assert await found(api, f"cursor={first['next']}") == ["0"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("user=alice@example.com", "20"),
        ("user_id=oidc/bob", "1"),
        ("route=wiki&outcome=deny", "1"),
        (f"request_id={0:032x}", "0"),
        ("after=2027-01-31T12:01:00Z", "21"),
        ("before=2027-01-31T13:01:00%2B01:00", "0"),
        ("q=alice+pay", "2"),
        ("q=pay.example", "2"),
        ("client_address=192.0.2.9", ""),
        ("after=0001-01-01T00:00:00Z&before=9999-12-31T23:59:59Z", "210"),
    ],
)
async def test_decisions_are_found_by_outcome(api: ApiSite, query: str, expected: str) -> None:
    await in_database(_make)
    assert await found(api, query) == list(expected)


@pytest.mark.parametrize("key", ["", "x", "-1", "1.5", "٣", "9" * 19, "9" * 300])
async def test_a_cursor_of_no_decision_is_refused(api: ApiSite, key: str) -> None:
    await api.problem(400, "GET", f"decisions?cursor={encode_cursor('decisions', key)}")


async def test_a_cursor_beyond_all_decisions_is_a_place(api: ApiSite) -> None:
    await in_database(_make)
    assert await found(api, f"cursor={encode_cursor('decisions', '9' * 18)}") == ["2", "1", "0"]
