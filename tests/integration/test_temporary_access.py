"""Access for a while in the running product: given by a command, believed by every process, and over when it is over."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_live_streams import application, ends, open_stream
from tests.support.children import free_port
from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import HTML, GateBuilder, RunningGate, sign_in, until_status
from tests.support.grants import command, give, press
from tests.support.network_faults import FaultyLink
from tests.support.redis_server import RedisServer
from tests.support.split import Split
from tests.support.upstream import RawUpstream, SampleUpstream

GRANTED: dict[str, Any] = {"name": "app", "policy": [{"allow": {"granted": True}}]}


def started(provider: DevelopmentProvider, to: str, directory: Path) -> RunningGate:
    builder = GateBuilder(provider.url).route("app.localhost", to=to, **GRANTED).setting(grpc_address=f"127.0.0.1:{free_port()}")
    return builder.start(directory)


@pytest.mark.parametrize("way", ["end", "revoked"])
async def test_a_stream_ends_with_the_access_that_it_rests_on(way: str, provider: DevelopmentProvider, tmp_path: Path) -> None:
    async with RawUpstream(script=application) as canary:
        with started(provider, canary.url, tmp_path) as gate:
            async with gate.client() as client:
                url = gate.url("app.localhost")
                assert (await sign_in(client, url, "alice")).status_code == 403
                id = give(gate.config_file, "app", "6s" if way == "end" else "1h")
                await until_status(client, url, 200)
                events = await open_stream(client, gate)
                if way == "revoked":
                    command(gate.config_file, "revoke", "--id", id)
                await ends(events)
                await until_status(client, url, 403)
                assert json.loads(command(gate.config_file, "list", "--json")) == []
            gate.wait_for_event("stream terminated", lambda entry: entry["reason"] == "access revoked")


@pytest.mark.parametrize("ends_first", ["access", "session"])
async def test_stream_ends_at_known_expiry_without_authorizer(ends_first: str, provider: DevelopmentProvider, tmp_path: Path) -> None:
    """The store has gone silent for longer than what is cached may be served: an end that was known before still counts."""
    lifetime, cookie_expire = ("15s", "1h") if ends_first == "access" else ("1h", "15s")
    async with RawUpstream(script=application) as canary:
        with RedisServer(tmp_path / "redis") as redis, FaultyLink(redis.port) as line:
            store = redis.url.replace(str(redis.port), str(line.port))
            builder = GateBuilder(provider.url).route("app.localhost", to=canary.url, **GRANTED)
            builder.setting(databroker_storage_type="kvstore", databroker_storage_connection_string=store)
            builder.setting(session_staleness="0s", cookie_expire=cookie_expire)
            with builder.start(tmp_path) as gate:
                async with gate.client() as client:
                    url = gate.url("app.localhost")
                    assert (await sign_in(client, url, "alice")).status_code == 403
                    give(gate.config_file, "app", lifetime)
                    await until_status(client, url, 200)
                    events = await open_stream(client, gate)
                    line.stall()
                    await ends(events)
                gate.wait_for_event("stream terminated")


async def test_other_users_are_denied(provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path: Path) -> None:
    with started(provider, upstream.url, tmp_path) as gate:
        url = gate.url("app.localhost")
        async with gate.client() as alice, gate.client() as bob:
            assert (await sign_in(alice, url, "alice")).status_code == 403
            assert (await sign_in(bob, url, "bob")).status_code == 403
            give(gate.config_file, "app", "1h")
            await until_status(alice, url, 200)
            assert (await bob.get(url, headers=HTML)).status_code == 403


async def test_access_request_and_grant_in_split_mode(provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path: Path) -> None:
    """alice asks, bob approves; each of their requests may reach another process."""
    with RedisServer(tmp_path / "redis") as redis:
        keys = {"approvers": [{"groups": "sales"}], "max_duration": "2h"}
        policy = [{"name": "app", "to": upstream.url, "allowed_groups": ["nobody"], "access_requests": keys}]
        split = Split(tmp_path, provider.url, redis, policy, database_url="")
        for name in ("authenticate", "authorize"):  # each has a separate database
            split.settings[name].pop("database_url")
        with split:
            async with split.client() as alice, split.client() as bob:
                assert (await sign_in(alice, split.url(), "alice")).status_code == 403
                refused = await alice.get(split.url(), headers=HTML)
                (link,) = re.findall(r'href="([^"]+/.gate/access\?route=[^"]+)"', refused.text)
                assert (await sign_in(bob, split.url(), "bob")).status_code == 403
                route = link.partition("route=")[2]
                requested = await press(alice, link, "ask", route=route, why="a test", duration="3600")
                assert requested.status_code == 303
                page = link.partition("?")[0]
                assert (await press(alice, page, "approve")).status_code == 403
                assert (await press(bob, page, "approve")).status_code == 303
                await until_status(alice, split.url(), 200)
                assert (await bob.get(split.url(), headers=HTML)).status_code == 403


async def test_separate_services_see_the_change(provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path: Path) -> None:
    with RedisServer(tmp_path / "redis") as redis:
        policy = [{**GRANTED, "to": upstream.url}]
        split = Split(tmp_path, provider.url, redis, policy, database_url="")
        for name in ("authenticate", "authorize"):  # each has a separate database
            split.settings[name].pop("database_url")
        with split:
            async with split.client() as client:
                assert (await sign_in(client, split.url(), "alice")).status_code == 403
                config = split.write("authenticate", 0)
                id = give(config, "app", "1h")
                await until_status(client, split.url(), 200)
                command(config, "revoke", "--id", id)
                await until_status(client, split.url(), 403)
