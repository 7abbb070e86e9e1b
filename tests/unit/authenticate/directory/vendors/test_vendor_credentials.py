"""A token is fetched when it is needed, and never one that could be split into more than a header's value."""

import json

import pytest

from authenticate.directory.snapshot import DirectoryError
from authenticate.directory.vendors.vendor_credentials import AccessTokenCredentials, StaticHeaders
from authenticate.provider.provider_http import ProviderResponse


class Endpoint:
    def __init__(self, **document: object):
        self.document = document
        self.request_count = 0
        self.now = 0.0
        self.token = AccessTokenCredentials(self._fetch, lambda: self.now)

    async def _fetch(self, api: object) -> ProviderResponse:
        self.request_count += 1
        return ProviderResponse(200, "application/json", json.dumps(self.document).encode())

    async def headers(self) -> dict[str, str]:
        return dict(await self.token.headers(None))  # type: ignore[arg-type]


async def test_token_is_cached_until_shortly_before_expiry() -> None:
    endpoint = Endpoint(access_token="a.b", expires_in=3600)
    assert await endpoint.headers() == await endpoint.headers() == {"Authorization": "Bearer a.b"}
    endpoint.now = 3500
    await endpoint.headers()
    assert endpoint.request_count == 1
    endpoint.now = 3541
    await endpoint.headers()
    assert endpoint.request_count == 2


async def test_rejected_token_is_fetched_again() -> None:
    endpoint = Endpoint(access_token="a", expires_in="60")
    assert not endpoint.token.invalidate()
    await endpoint.headers()
    assert endpoint.token.invalidate()
    await endpoint.headers()
    assert endpoint.request_count == 2
    assert not StaticHeaders({"Authorization": "x"}).invalidate()


@pytest.mark.parametrize(
    "document", [{}, {"access_token": ""}, {"access_token": 5}, {"access_token": "a b"}, {"access_token": "a\r\nX: y"}]
)
async def test_malformed_token_is_not_used(document: dict[str, object]) -> None:
    with pytest.raises(DirectoryError):
        await Endpoint(**document).headers()


async def test_no_representation_shows_a_credential() -> None:
    endpoint = Endpoint(access_token="hunter2")
    await endpoint.headers()
    assert "hunter2" not in repr(endpoint.token) + repr(StaticHeaders({"Authorization": "hunter2"}))
