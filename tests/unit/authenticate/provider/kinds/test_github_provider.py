"""GitHub: the API's answers become claims; the sign-in itself is in tests/contract/test_providers.py."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from authenticate.provider.discovery import DiscoveryDocument
from authenticate.provider.kinds.kind_registry import build_provider
from authenticate.provider.provider_errors import InvalidAccessToken
from authenticate.provider.provider_http import ProviderResponse
from foundation.errors import ProviderError
from tests.support.options import make_options

USER = {"login": "alice", "id": 7, "name": "Alice Adams", "email": "public@corp.example", "avatar_url": "https://a.example/7"}
EMAILS = [
    {"email": "old@corp.example", "primary": False, "verified": True},
    {"email": "alice@corp.example", "primary": True, "verified": True},
]


class Api:
    """Answers by path, as ProviderHttp would bring them."""

    def __init__(self, user: Any = USER, emails: Any = EMAILS, status: int = 200, emails_status: int = 200):
        self._answers = {"/user": (status, user), "/user/emails": (emails_status, emails)}
        self.requests: list[str] = []

    async def get(self, url: str, headers: dict[str, str]) -> ProviderResponse:
        self.requests.append(url)
        status, document = self._answers[url.partition("/api/v3")[2] or url.partition("api.github.com")[2]]
        return ProviderResponse(status, "application/json", json.dumps(document).encode())


async def claims(tmp_path: Path, api: Api, url: str | None = None) -> dict[str, Any]:
    provider = build_provider(make_options(tmp_path, idp_provider="github", idp_provider_url=url).first_provider)
    return await provider.userinfo(SimpleNamespace(http=api), DiscoveryDocument("", "", "", "", frozenset()), "token")  # type: ignore[arg-type]


async def test_user_is_the_login_with_primary_address(tmp_path: Path) -> None:
    api = Api()
    found = await claims(tmp_path, api)
    assert api.requests == ["https://api.github.com/user", "https://api.github.com/user/emails"]
    assert (found["sub"], found["id"], found["name"]) == ("alice", "7", "Alice Adams")
    assert (found["email"], found["email_verified"]) == ("alice@corp.example", True)


async def test_a_server_of_ones_own_has_its_api_below_it(tmp_path: Path) -> None:
    api = Api()
    await claims(tmp_path, api, "https://git.corp.example/")
    assert api.requests[0] == "https://git.corp.example/api/v3/user"


@pytest.mark.parametrize("emails", [[], [{"email": "a@corp.example", "primary": True, "verified": False}],
                                    [{"email": "a@corp.example", "primary": True}], ["a@corp.example"]])  # fmt: skip
async def test_an_address_that_github_did_not_verify_is_none(tmp_path: Path, emails: Any) -> None:
    assert "email" not in await claims(tmp_path, Api(emails=emails))


async def test_without_the_scope_for_addresses_there_is_none(tmp_path: Path) -> None:
    assert "email" not in await claims(tmp_path, Api(emails={"message": "no"}, emails_status=404))


@pytest.mark.parametrize("user", [{}, {"login": "", "id": 7}, {"login": "a", "id": "7"}, {"login": ["a"], "id": 7}])
async def test_response_without_user_is_rejected(tmp_path: Path, user: Any) -> None:
    with pytest.raises(ProviderError):
        await claims(tmp_path, Api(user=user))


async def test_rejected_token_is_distinguished_from_outage(tmp_path: Path) -> None:
    with pytest.raises(InvalidAccessToken):
        await claims(tmp_path, Api(status=401))
    with pytest.raises(ProviderError) as caught:
        await claims(tmp_path, Api(status=500))
    assert not isinstance(caught.value, InvalidAccessToken)
