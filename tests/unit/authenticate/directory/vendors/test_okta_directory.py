"""Okta specifics: only changed groups are read again."""

import time

from tests.support.fake_api import Answer, as_json


def requested_members(stage) -> list[str]:
    return [request.path for request in stage.directory.requests if "/groups/" in request.path]


async def test_requests_members_only_of_groups_with_changed_membership(staged) -> None:
    stage = await staged("okta")
    await stage.read()
    before = len(requested_members(stage))
    stage.directory.company.members["empty"] = ["carol"]
    stage.directory.changed["empty"] = "2026-03-03T00:00:00.000Z"
    await stage.read()
    assert requested_members(stage)[before:] == [f"/api/v1/groups/{stage.directory.group_id('empty')}/users"]
    assert await stage.users() == stage.directory.expected()[0]


async def test_a_failed_reading_is_not_remembered(staged) -> None:
    stage = await staged("okta")
    await stage.read()
    stage.directory.company.members["engineering"] = ["carol", "bob"]
    stage.directory.changed["engineering"] = "2026-03-03T00:00:00.000Z"
    stage.directory.fault = lambda request: as_json({}, 400) if request.path == "/api/v1/users" else None
    assert (await stage.read()).error
    stage.directory.fault = lambda request: None
    await stage.read()
    assert await stage.users() == stage.directory.expected()[0]


async def test_group_deleted_during_sync_has_no_members(staged) -> None:
    stage = await staged("okta")
    gone = f"/api/v1/groups/{stage.directory.group_id('engineering')}/users"
    stage.directory.fault = lambda request: as_json({"errorCode": "E0000007"}, 404) if request.path == gone else None
    assert (await stage.read()).error == ""
    assert (await stage.users())[f"okta/{stage.directory.user_id('ann')}"].group_ids == ()


async def test_its_rate_limit_is_waited_for_until_it_ends(staged) -> None:
    stage = await staged("okta")
    limited = [
        as_json({}, 429, **{"X-Rate-Limit-Limit": "600", "X-Rate-Limit-Remaining": "0", "X-Rate-Limit-Reset": str(int(stage.now) + 20)})
    ]

    def fault(request) -> Answer | None:
        return limited.pop() if limited else None

    stage.directory.fault = fault
    assert (await stage.read()).error == ""
    (slept,) = stage.slept
    assert 19 <= slept <= 21


async def test_a_rate_limit_that_ends_too_late_ends_the_reading(staged) -> None:
    stage = await staged("okta")
    limit = as_json({}, 429, **{"X-Rate-Limit-Reset": str(int(time.time()) + 10**9)})
    stage.directory.fault = lambda request: limit
    assert "idp_refresh_directory_timeout" in (await stage.read()).error
    assert stage.slept == []


async def test_the_key_may_stand_alone(staged) -> None:
    stage = await staged("okta", idp_service_account="b2t0YS1rZXk=")
    assert (await stage.read()).error == ""
