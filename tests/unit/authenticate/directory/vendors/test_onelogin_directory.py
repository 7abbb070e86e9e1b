"""OneLogin specifics."""

import pytest


@pytest.mark.parametrize(
    ("provider_url", "api"),
    [
        (None, "api.us.onelogin.com"),
        ("https://openid-connect-eu.onelogin.com/oidc", "api.eu.onelogin.com"),
        ("https://corp.onelogin.com/oidc/2", "corp.onelogin.com"),
    ],
)
async def test_its_api_follows_from_the_authenticate_url(staged, provider_url: str | None, api: str) -> None:
    stage = await staged("onelogin", idp_directory_url=None, idp_provider_url=provider_url)
    assert str(stage.source) == f"onelogin at {api}"


async def test_member_of_deleted_group_has_no_group(staged) -> None:
    stage = await staged("onelogin")
    listed = stage.directory._user
    stage.directory._user = lambda user: {**listed(user), "group_id": 999}
    await stage.read()
    assert {user.group_ids for user in (await stage.users()).values()} == {()}
