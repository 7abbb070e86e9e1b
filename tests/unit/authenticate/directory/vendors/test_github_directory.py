"""GitHub specifics."""

import pytest

from authenticate.directory.vendors import github_directory


@pytest.mark.parametrize(
    ("provider_url", "api"),
    [
        (None, "api.github.com"),
        ("https://corp.ghe.com", "api.corp.ghe.com"),
        ("https://git.corp.example", "git.corp.example"),
    ],
)
async def test_its_api_follows_from_the_authenticate_url(staged, provider_url: str | None, api: str) -> None:
    stage = await staged("github", idp_directory_url=None, idp_provider_url=provider_url)
    assert str(stage.source) == f"github at {api}"


def test_self_hosted_server_has_graphql_alongside_rest() -> None:
    assert github_directory._graphql("https://git.corp.example/api/v3") == "https://git.corp.example/api/graphql"
    assert github_directory._graphql("https://api.github.com") == "https://api.github.com/graphql"


async def test_names_are_requested_once_in_small_batches(staged, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = await staged("github")
    monkeypatch.setattr(github_directory, "PROFILES_PER_RUN", 2)
    await stage.read()
    assert sum(request.path.startswith("/users/") for request in stage.directory.requests) == 2
    assert sum(not user.name for user in (await stage.users()).values()) == 1
    await stage.read()
    await stage.read()
    assert sum(request.path.startswith("/users/") for request in stage.directory.requests) == 3
    assert await stage.users() == stage.directory.expected()[0]
