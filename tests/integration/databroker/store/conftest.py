"""One real Redis for the tests of what only the kvstore promises."""

from collections.abc import Iterator

import pytest

from tests.support.redis_server import RedisServer


@pytest.fixture(scope="session")
def redis_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def redis_server(redis_once: RedisServer) -> RedisServer:
    redis_once.command("FLUSHALL")
    return redis_once
