"""GitLab specifics: any user can create a group of any name, so names are paths and only known groups count."""


async def test_group_is_named_by_its_complete_path(staged) -> None:
    """Otherwise a user who names a group like a trusted one, and adds gate's account to it, would be in the trusted group."""
    stage = await staged("gitlab")
    await stage.read()
    assert {group.name for group in (await stage.groups()).values()} == {"corp/engineering", "corp/backend", "corp/empty"}


async def test_personal_group_of_user_does_not_count(staged) -> None:
    stage = await staged("gitlab")
    member = await stage.source.look_up("gitlab/101", "token of ann")
    assert [group.id for group in member.groups] == ["7"]


async def test_group_the_user_can_only_view_does_not_count(staged) -> None:
    stage = await staged("gitlab")
    await stage.source.look_up("gitlab/101", "token of ann")
    (group_request,) = (request for request in stage.directory.requests if "authorization" in request.headers)
    assert group_request.query["min_access_level"] == "10"
    assert "private-token" not in group_request.headers


async def test_blocked_user_is_in_no_group(staged) -> None:
    stage = await staged("gitlab")
    await stage.read()
    assert "gitlab/666" not in await stage.users()
