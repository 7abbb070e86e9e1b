"""Google specifics; tests/contract/test_directories.py covers the rest."""

from tests.support.fake_api import as_json


async def test_all_company_members_are_in_group_containing_the_company(staged) -> None:
    stage = await staged("google")
    members = stage.directory._members
    stage.directory._members = lambda group: [{"type": "CUSTOMER", "id": "C01"}] if group == "empty" else members(group)
    await stage.read()
    empty = stage.directory.group_id("empty")
    assert all(empty in user.group_ids for user in (await stage.users()).values())


async def test_a_stranger_in_a_group_has_it(staged) -> None:
    """A user of another domain, who is missing from the list of users."""
    stage = await staged("google")
    stage.directory.company.members["empty"] = ["dan"]
    await stage.read()
    dan = f"google/{stage.directory.user_id('dan')}"
    assert (await stage.users())[dan].group_ids == (stage.directory.group_id("empty"),)
    member = await stage.source.look_up(dan, "")
    assert member.user.group_ids == (stage.directory.group_id("empty"),)


async def test_members_of_empty_groups_are_not_requested(staged) -> None:
    stage = await staged("google")
    await stage.read()
    assert not any(stage.directory.group_id("empty") in request.path for request in stage.directory.requests)


async def test_a_rate_limit_that_is_called_forbidden_is_waited_for(staged) -> None:
    stage = await staged("google")
    limited = [as_json({"error": {"errors": [{"reason": "userRateLimitExceeded"}]}}, 403)]
    stage.directory.fault = lambda request: limited.pop() if limited and request.path.endswith("/users") else None
    assert (await stage.read()).error == ""
    assert len(stage.slept) == 1


async def test_its_api_has_an_address_of_its_own(staged) -> None:
    stage = await staged("google", idp_directory_url=None)
    assert str(stage.source) == "google at admin.googleapis.com"
