"""Django's cache is the kvstore where there is one, and a page never depends on it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.certs import certificate_files
from tests.support.children import clean_environment
from tests.support.fork_server import python
from tests.support.options import make_options
from tests.support.redis_server import RedisServer

USE = """
import json
import django
django.setup()
from django.core.cache import cache
cache.set("a", {"b": 1}, 30)
print(json.dumps(cache.get("a")), flush=True)
"""


@pytest.fixture(params=["plain", "tls"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RedisServer]:
    tls = certificate_files(tmp_path, "localhost") if request.param == "tls" else None
    with RedisServer(tmp_path / "redis", tls=tls) as running:
        yield running


def settings_of(server: RedisServer) -> dict[str, object]:
    settings: dict[str, object] = {"databroker_storage_type": "kvstore", "databroker_storage_connection_string": server.url}
    if server.tls is not None:
        settings["databroker_storage_ca_file"] = str(server.tls.authority)
        settings["databroker_storage_cert_file"], settings["databroker_storage_key_file"] = map(str, server.client_pair)
    return settings


def cached(directory: Path, server: RedisServer) -> object:
    make_options(directory, **settings_of(server))
    environment = {"GATE_CONFIG": str(directory / "config.yaml"), "DJANGO_SETTINGS_MODULE": "gateproject.settings"}
    with python("-c", USE, environment=clean_environment(**environment)) as child:
        assert child.process.wait(60) == 0, child.output
        return json.loads(child.output.strip().splitlines()[-1])


def test_cache_value_in_redis_is_json(tmp_path: Path, server: RedisServer) -> None:
    assert cached(tmp_path, server) == {"b": 1}
    assert server.command("GET", "gate:cache:1:a") == '{"b": 1}'


def test_a_kvstore_that_is_gone_is_a_cache_that_knows_nothing(tmp_path: Path, server: RedisServer) -> None:
    server.kill()
    assert cached(tmp_path, server) is None
