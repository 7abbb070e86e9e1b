"""An identity token is fetched once, kept while it is good, and nothing is sent without one."""

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from structlog.testing import capture_logs

from authorize.upstream import cloud_serverless
from authorize.upstream.cloud_serverless import IdentityTokens
from foundation.errors import UpstreamCredentialsUnavailable
from tests.support.clock import NOW, Clock
from tests.support.cloud import ACCOUNT, Cloud
from tests.support.options import make_options

SERVICE = "https://app-1.run.example"
OTHER = "https://app-2.run.example"


@pytest.fixture
def logged() -> Iterator[list[Any]]:
    with capture_logs() as entries:
        yield entries


@pytest.fixture
async def cloud(clock: Clock) -> AsyncIterator[Cloud]:
    async with Cloud(clock) as cloud:
        yield cloud


@pytest.fixture
def tokens(tmp_path: Path, cloud: Cloud, clock: Clock) -> IdentityTokens:
    return IdentityTokens(make_options(tmp_path, cloud_serverless_metadata_url=cloud.url), clock)


def with_account(tmp_path: Path, cloud: Cloud, clock: Clock) -> IdentityTokens:
    clock.now = time.time()  # the cloud verifies our assertion by this machine's clock
    encoded = base64.b64encode(cloud.account_json()).decode()
    return IdentityTokens(make_options(tmp_path, cloud_serverless_authentication_service_account=encoded), clock)


async def test_metadata_token_is_fetched_once_per_audience(tokens: IdentityTokens, cloud: Cloud) -> None:
    first = await tokens.token_for(SERVICE)
    assert jwt.decode(first, options={"verify_signature": False})["aud"] == SERVICE
    assert await tokens.token_for(SERVICE) == first
    assert await tokens.token_for(OTHER) != first
    assert cloud.requested_audiences == [SERVICE, OTHER]
    assert repr(tokens) == "<IdentityTokens 2 held>"


async def test_with_a_service_account_a_signed_assertion_is_exchanged(tmp_path: Path, cloud: Cloud, clock: Clock) -> None:
    token = await with_account(tmp_path, cloud, clock).token_for(SERVICE)
    claims = jwt.decode(token, options={"verify_signature": False})
    assert (claims["aud"], claims["email"], cloud.requested_audiences) == (SERVICE, ACCOUNT, [SERVICE])


async def test_many_requests_at_once_fetch_one_token(tokens: IdentityTokens, cloud: Cloud) -> None:
    assert set(await asyncio.gather(*(tokens.token_for(SERVICE) for _ in range(50)))) == set(cloud.tokens)
    assert cloud.requested_audiences == [SERVICE]


async def test_a_token_is_renewed_in_the_background_before_it_can_not_be_used(tokens: IdentityTokens, cloud: Cloud, clock: Clock) -> None:
    first = await tokens.token_for(SERVICE)
    clock.now += 3600 - 299
    cloud.may_answer.clear()
    assert await tokens.token_for(SERVICE) == first
    cloud.may_answer.set()
    while await tokens.token_for(SERVICE) == first:
        await asyncio.sleep(0.001)
    assert await tokens.token_for(SERVICE) == cloud.tokens[1]
    assert cloud.requested_audiences == [SERVICE, SERVICE]


async def test_in_its_last_minute_a_token_is_not_used(tokens: IdentityTokens, cloud: Cloud, clock: Clock) -> None:
    first = await tokens.token_for(SERVICE)
    clock.now += 3600 - 60
    assert await tokens.token_for(SERVICE) == cloud.tokens[1] != first


@pytest.mark.parametrize(
    "invalid",
    [
        {"bend": {"aud": OTHER}},
        {"bend": {"aud": [SERVICE, OTHER]}},
        {"bend": {"exp": NOW + 30}},
        {"bend": {"exp": "later"}},
        {"answer": (500, b"")},
        {"answer": (302, b"")},
        {"answer": (200, b"")},
        {"answer": (200, b"a.b.c\r\nX-Gate-Jwt-Assertion: x")},
        {"answer": (200, b"a" * 70_000)},
        {"is_signed": False},
        {"flavor": "none"},
    ],
    ids=str,
)
async def test_token_for_another_upstream_is_not_sent(tokens: IdentityTokens, cloud: Cloud, clock: Clock, invalid: dict[str, Any]) -> None:
    for name, value in invalid.items():
        setattr(cloud, name, value)
    with pytest.raises(UpstreamCredentialsUnavailable):
        await tokens.token_for(SERVICE)
    cloud.bend, cloud.answer, cloud.flavor, cloud.is_signed = {}, None, "Google", True
    with pytest.raises(UpstreamCredentialsUnavailable):
        await tokens.token_for(SERVICE)
    assert len(cloud.requested_audiences) == 1, "a failure is not repeated at once"
    clock.now += cloud_serverless.FAILURE_SECONDS
    assert await tokens.token_for(SERVICE) == cloud.tokens[-1]


async def test_a_server_that_is_away_is_a_failure_with_a_log_line(tmp_path: Path, logged: Any) -> None:
    tokens = IdentityTokens(make_options(tmp_path, cloud_serverless_metadata_url="http://127.0.0.1:1"))
    with pytest.raises(UpstreamCredentialsUnavailable):
        await tokens.token_for(SERVICE)
    (entry,) = [entry for entry in logged if entry["event"] == "fetching upstream identity token failed"]
    assert (entry["audience"], entry["reason"]) == (SERVICE, "ConnectError")


async def test_repr_has_no_token_or_key(tmp_path: Path, cloud: Cloud, clock: Clock, logged: Any) -> None:
    tokens = with_account(tmp_path, cloud, clock)
    token = await tokens.token_for(SERVICE)
    cloud.answer = (200, b'{"id_token": 5}')
    with pytest.raises(UpstreamCredentialsUnavailable):
        await tokens.token_for(OTHER)
    text = repr(tokens) + repr(vars(tokens)) + repr(logged)
    assert token not in text
    assert "PRIVATE" not in text
