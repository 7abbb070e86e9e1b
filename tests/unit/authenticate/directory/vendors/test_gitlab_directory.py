"""GitLab specifics: any user can create a group of any name, so names are paths and only known groups count."""


async def test_a_group_is_named_by_its_whole_path(staged) -> None:
    """Otherwise a user who names a group like a trusted one, and adds gate's account to it, would be in the trusted group."""
    stage = await staged("gitlab")
    await stage.read()
    assert {group.name for group in (await stage.groups()).values()} == {"corp/engineering", "corp/backend", "corp/empty"}


async def test_a_group_of_the_persons_own_does_not_count(staged) -> None:
    stage = await staged("gitlab")
    person = await stage.source.look_up("gitlab/101", "token of ann")
    assert [group.id for group in person.groups] == ["7"]


async def test_a_group_that_the_person_merely_sees_does_not_count(staged) -> None:
    stage = await staged("gitlab")
    await stage.source.look_up("gitlab/101", "token of ann")
    (asked,) = (request for request in stage.directory.requests if "authorization" in request.headers)
    assert asked.query["min_access_level"] == "10"
    assert "private-token" not in asked.headers


async def test_who_is_blocked_is_in_no_group(staged) -> None:
    stage = await staged("gitlab")
    await stage.read()
    assert "gitlab/666" not in await stage.users()
