"""Two authenticates, two authorizes, two proxies and a data broker on Redis, each a process, over TLS: the demo's sign-in, and its end.

The admin's tables are in a PostgreSQL that authenticate and authorize share.
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Self
from urllib.parse import urljoin

import httpx
import jwt
import pytest
import yaml

from authorize.policy.reasons import Reason
from databroker.records import DIRECTORY_USER, SESSION
from databroker.rpc.remote_broker import RemoteBroker
from foundation.rpc.rpc_channel import RpcChannel
from foundation.rpc.shared_secret import SharedSecret
from foundation.values import Url
from tests.support.children import free_port
from tests.support.consent import allow, authorize_url, post_oauth, redeem
from tests.support.development_provider import DevelopmentProvider
from tests.support.eventually import PATIENCE, eventually, eventually_equal
from tests.support.gate import sign_in, status_or_cut
from tests.support.options import make_options
from tests.support.postgresql import PostgresServer
from tests.support.redis_server import RedisServer
from tests.support.split import AUTHENTICATE_HOST, ROUTE_HOST, Split
from tests.support.trace_backend import EnvoyRequestHead, TraceBackend, until
from tests.support.tunnels import TunnelClient, obtain_token
from tests.support.upstream import SampleUpstream, TcpUpstream

TUNNEL = f"{ROUTE_HOST}:7"
POLICY = [
    {"prefix": "/soon/", "allow_any_authenticated_user": True, "policy": [{"mode": "shadow", "deny": {"groups": "sales"}}]},
    {"prefix": "/files/", "allowed_groups": ["engineering"], "pass_identity_headers": True},
    {
        "prefix": "/tokens/",
        "portal": "hide",
        "allow_any_authenticated_user": True,
        "pass_provider_tokens": True,
        "set_request_headers": {"X-Token": "${access_token}"},
    },
    {"prefix": "/public/", "allow_public_unauthenticated_access": True},
    {"prefix": "/", "allow_any_authenticated_user": True, "pass_identity_headers": True},
]


@pytest.fixture(scope="module")
def backend() -> Iterator[TraceBackend]:
    with TraceBackend() as backend:
        yield backend


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory, backend: TraceBackend) -> Iterator[Split]:
    directory = tmp_path_factory.mktemp("split")
    with ExitStack() as stack:
        provider = stack.enter_context(DevelopmentProvider())
        upstream = stack.enter_context(SampleUpstream())
        redis = RedisServer(directory / "redis")
        stack.callback(redis.child.__exit__)
        database = stack.enter_context(PostgresServer())
        echo = stack.enter_context(TcpUpstream(is_echo=True))
        policy = [{**route, "to": upstream.url} for route in POLICY]
        policy.append({"from": f"tcp+https://{TUNNEL}", "to": echo.url, "allowed_groups": ["engineering"]})
        more = {
            "jwt_claims_headers": ["email"],
            "admin_allowed_users": ["alice@example.com"],
            "trusted_proxies": ["127.0.0.1/32", "::1/128"],
        }
        traced = {"tracing_provider": "otlp", "tracing_span_endpoint": backend.url("/v1/traces"), "tracing_sample_rate": 0}
        # The proxies believe their peer, so that a test says what is traced.
        yield stack.enter_context(Split(directory, provider.url, redis, policy, database_url=database.url, **more, **traced))


def broker_of(split: Split, directory) -> RemoteBroker:
    options = make_options(directory, grpc_insecure=False, **split.shared)
    return RemoteBroker(RpcChannel(Url("https", "localhost", split.ports["databroker"]), options, SharedSecret(options.shared_secret)))


async def test_sign_in_and_out_across_instances(split, tmp_path):
    broker = broker_of(split, tmp_path)
    before = {record.id for record in await broker.page(SESSION, "", 500)}
    async with split.client() as browser:
        page = await sign_in(browser, split.url("/?a=1"), "alice")
        assert page.status_code == 200
        assert page.url.path == "/"
        for _ in range(4):
            assert (await browser.get(split.url("/"))).status_code == 200
        token = (await browser.get(split.url("/.gate/jwt"))).text
        assert jwt.decode(token, options={"verify_signature": False})["aud"] == f"{ROUTE_HOST}:{split.ports['proxy']}"
        (session,) = [record for record in await broker.page(SESSION, "", 500) if record.id not in before]
        assert session.data["user_id"] == "oidc/alice"
        assert await broker.delete(SESSION, session.id)
        await until_refused(browser, split)
        await broker.close()


async def test_an_application_gets_a_token_that_authenticate_has_refreshed(split, tmp_path):
    broker = broker_of(split, tmp_path)
    before = {record.id for record in await broker.page(SESSION, "", 500)}

    async def received() -> str | None:
        """The token that the application received; None if a refresh took longer than a request waits, as on a busy machine."""
        answer = await browser.get(split.url("/tokens/"))
        assert answer.status_code in (200, 503)
        return dict(answer.json()["headers"])["x-token"] if answer.status_code == 200 else None

    async with split.client() as browser:
        assert (await sign_in(browser, split.url("/tokens/"), "alice")).status_code == 200
        (session,) = [record for record in await broker.page(SESSION, "", 500) if record.id not in before]
        old = await received()
        assert old == session.data["access_token"]
        await broker.put(SESSION, session.id, {**session.data, "access_token_expires_at": time.time() - 1}, expires=session.expires)
        async with asyncio.timeout(40):
            while await received() in (old, None):  # where one does not know of the change yet
                await asyncio.sleep(0.02)
        fresh = (await broker.get(SESSION, session.id)).data["access_token"]
        async with asyncio.timeout(40):
            while {await received() for _ in range(4)} != {fresh}:
                await asyncio.sleep(0.02)
        await broker.delete(SESSION, session.id)
    await broker.close()


async def until_refused(browser, split) -> None:
    """Twice by each proxy, which asks each authorize in turn."""
    async with asyncio.timeout(10):
        refused = 0
        while refused < 4:
            refused = refused + 1 if await status_or_cut(browser, split.url("/")) == 401 else 0


async def test_rules_are_evaluated_and_anonymous_users_redirected(split):
    async with split.client() as browser:
        assert (await browser.get(split.url("/public/"))).status_code == 200
        stranger = await browser.get(split.url("/"), headers={"Accept": "text/html"})
        assert stranger.status_code == 302
        assert "/.gate/sign_in?" in stranger.headers["location"]
        assert (await sign_in(browser, split.url("/"), "bob")).status_code == 200
        refused = await browser.get(split.url("/files/"), headers={"Accept": "application/json"})
        assert refused.status_code == 403
        assert Reason.GROUP_NOT_LISTED.value in refused.json()["reason"]
        assert (await browser.get(split.url("/%2e%2e/files/"))).status_code == 403


async def test_tunnel_is_authorized_remotely_and_ends_with_session(split, tmp_path):
    broker, port = broker_of(split, tmp_path), split.ports["proxy"]
    async with split.client() as browser:
        token = f"Authorization: Gate {await obtain_token(browser, split.url('').rstrip('/'), 'bob')}"
        with TunnelClient(port, ROUTE_HOST) as refused:
            assert refused.open(TUNNEL, token) == 403
    async with split.client() as browser:
        token = f"Authorization: Gate {await obtain_token(browser, split.url('').rstrip('/'), 'alice')}"
        with TunnelClient(port, ROUTE_HOST) as client:
            assert client.open(TUNNEL, token) == 200
            assert client.send(b"hello").exactly(5) == b"hello"
            for record in await broker.page(SESSION, "", 100):
                if record.data["user_id"] == "oidc/alice":
                    await broker.delete(SESSION, record.id)
            assert await asyncio.to_thread(client.ends) == b""
        with TunnelClient(port, ROUTE_HOST) as again:
            assert again.open(TUNNEL, token) == 401
    await broker.close()


async def test_tunnel_outlives_its_access_token_with_remote_authorizer(split: Split, tmp_path: Path) -> None:
    broker, resource = broker_of(split, tmp_path), f"tcp+https://{TUNNEL}"
    site = SimpleNamespace(url=lambda host, path: urljoin(split.admin_url(), path), client=split.client)
    async with split.client() as browser:
        location = await allow(browser, authorize_url(site, "gate", resource), "alice", "gate command line")
        tokens = [await redeem(site, location, "gate", resource)]
        with TunnelClient(split.ports["proxy"], ROUTE_HOST) as client:
            assert client.open(TUNNEL, f"Authorization: Bearer {tokens[0]['access_token']}") == 200
            for _ in range(2):  # the record of a session has its last two access tokens
                form = {"grant_type": "refresh_token", "client_id": "gate", "refresh_token": tokens[-1]["refresh_token"]}
                tokens.append((await post_oauth(site, "token", **form)).json())

            async def opens(token: dict[str, str]) -> int:
                with TunnelClient(split.ports["proxy"], ROUTE_HOST) as other:
                    return await asyncio.to_thread(other.open, TUNNEL, f"Authorization: Bearer {token['access_token']}")

            await eventually_equal(lambda: opens(tokens[0]), 401)
            assert await opens(tokens[-1]) == 200
            assert client.send(b"hello").exactly(5) == b"hello"
            (agent,) = [record for record in await broker.page(SESSION, "", 100) if "agent" in record.data]
            await broker.delete(SESSION, agent.id)
            assert await asyncio.to_thread(client.ends) == b""
    await broker.close()


async def test_portal_is_the_same_with_remote_authorizer(split: Split, tmp_path: Path) -> None:
    api, expected = f"{split.admin_url()}../api/portal.json", {"bob": ["Hello", "Hello /public/", "Hello /soon/"]}
    expected["alice"] = ["Hello", "Hello /files/", "Hello /public/", "Hello /soon/", "Hello 7"]
    authorize = f"https://localhost:{split.ports['authorize']}"
    config, port = yaml.safe_load(split.write("authenticate", 0).read_text()), free_port()
    requesting = tmp_path / "asking.yaml"
    requesting.write_text(yaml.safe_dump({**config, "address": f"127.0.0.1:{port}", "authorize_service_url": authorize}))
    with split.run("authenticate", requesting) as child:
        child.wait_for_line("gate is ready")
        for user, titles in expected.items():
            async with split.client() as browser:
                await sign_in(browser, split.url(), user)
                for _ in range(2):
                    assert titles_in(await browser.get(api)) == titles
                    assert "this browser" in (await browser.get(f"{split.admin_url()}../sessions")).text
                at_host = [each for each in browser.cookies.jar if each.domain == AUTHENTICATE_HOST]
                headers = {"Cookie": "; ".join(f"{each.name}={each.value}" for each in at_host), "Host": httpx.URL(api).netloc.decode()}
                url = f"https://127.0.0.1:{port}/.gate/api/portal.json"
                answer = await browser.get(url, headers=headers, extensions={"sni_hostname": AUTHENTICATE_HOST})
                assert titles_in(answer) == titles


def titles_in(answer: httpx.Response) -> list[str]:
    return [each["title"] for each in answer.raise_for_status().json()["applications"]]


async def test_an_open_stream_ends_with_the_session_and_with_the_group(split, tmp_path):
    broker = broker_of(split, tmp_path)
    before = {record.id for record in await broker.page(SESSION, "", 500)}
    async with split.client() as browser:
        assert (await sign_in(browser, split.url("/"), "carol")).status_code == 200
        (session,) = [record for record in await broker.page(SESSION, "", 500) if record.id not in before]
        await broker.put(DIRECTORY_USER, "oidc/carol", {"id": "oidc/carol", "group_ids": ["engineering"]})
        async with asyncio.timeout(10):
            while (await browser.get(split.url("/files/"))).status_code != 200:
                await asyncio.sleep(0.02)
        for path, withdraw in (
            ("/files/drip", lambda: broker.put(DIRECTORY_USER, "oidc/carol", {"id": "oidc/carol", "group_ids": []})),
            ("/drip", lambda: broker.delete(SESSION, session.id)),
        ):
            async with browser.stream("GET", split.url(path)) as response:
                assert response.status_code == 200
                chunks = response.aiter_raw()
                for _ in range(10):
                    await anext(chunks)
                await withdraw()
                await asyncio.wait_for(to_the_end(chunks), PATIENCE)
    await broker.close()


async def to_the_end(chunks) -> None:
    """It is endless: only gate ends it, in the middle."""
    with pytest.raises(httpx.RemoteProtocolError):
        async for _ in chunks:
            pass


async def test_admin_displays_decisions_of_other_processes_and_user_locations(split, tmp_path):
    """The process that decides writes the record; the process with the admin displays it."""
    async with split.client() as bob, split.client() as alice:
        assert (await sign_in(bob, split.url("/soon/"), "bob")).status_code == 200
        refused = await bob.get(split.url("/files/"), headers={"Accept": "application/json"})
        request_id = refused.json()["request_id"]
        await sign_in(alice, split.admin_url(), "alice")
        displayed = await wait_until_displayed(alice, split.admin_url(f"authorize/loggeddecision/?q={request_id}"), "bob@example.com")
        assert "forbidden" in displayed
        await wait_until_displayed(
            alice, split.admin_url("authorize/loggeddecision/?shadow_outcome=forbidden&user=bob@example.com"), "/soon/"
        )
        await wait_until_displayed(alice, split.admin_url("databroker/session/?q=bob"), f"{ROUTE_HOST}:{split.ports['proxy']}")
    broker = broker_of(split, tmp_path)
    for session in await broker.page(SESSION, "", 50):
        await broker.delete(SESSION, session.id)
    await broker.close()


async def wait_until_displayed(browser, url: str, text: str) -> str:
    """Wait until the page displays the text, because records appear a moment later."""
    async with asyncio.timeout(20):
        while text not in (page := await browser.get(url, headers={"Accept": "text/html"})).text:
            assert page.status_code == 200
            await asyncio.sleep(0.05)
    return page.text


BROWSERS = 4


class Load:
    """Continuous requests from `BROWSERS` tabs; counts the responses and the broken connections."""

    def __init__(self, browser: httpx.AsyncClient, url: str):
        self._browser = browser
        self._url = url
        self.statuses: list[int] = []
        self.broken = 0

    async def _ask(self) -> None:
        while True:
            try:
                self.statuses.append((await self._browser.get(self._url)).status_code)
            except httpx.TransportError:
                self.broken += 1
            await asyncio.sleep(0.01)

    async def more(self, number: int) -> None:
        """Return after `number` more responses."""
        until = len(self.statuses) + number
        await eventually(lambda: len(self.statuses) >= until)

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._ask()) for _ in range(BROWSERS)]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)


async def test_crash_of_either_process_fails_only_its_requests(split):
    """Kill one process of each of three services at once, then the only data broker, and restart it as a supervisor would."""
    async with split.client() as browser, split.client() as newcomer:
        assert (await sign_in(browser, split.url("/"), "bob")).status_code == 200
        async with Load(browser, split.url("/")) as load:
            await load.more(4 * BROWSERS)
            for services in ("authorize", "authenticate", "proxy"):
                split.kill(services, 1)
            await load.more(4 * BROWSERS)
            assert (await sign_in(newcomer, split.url("/"), "bob")).status_code == 200
            started = [split.begin(services, 1) for services in ("authorize", "authenticate", "proxy")]
            split.kill("databroker", 0)
            started.append(split.begin("databroker", 0))
            await load.more(BROWSERS)
            for child in started:
                await asyncio.to_thread(child.wait_for_line, "gate is ready", 60)
            await load.more(4 * BROWSERS)
            async with split.client() as another:
                assert (await sign_in(another, split.url("/"), "carol")).status_code == 200
        assert set(load.statuses) == {200}
        assert load.broken <= BROWSERS


CHECK = "envoy.service.auth.v3.Authorization/Check"


def is_whole(spans: list[EnvoyRequestHead]) -> bool:
    """Whether every service has exported its spans, so that all spans but the first have their parents."""
    known = {span.id for span in spans}
    whole = [span for span in spans if span.service == "gate-proxy" and span.kind == "server"]
    calls = {span.id for span in spans if span.service == "gate-proxy" and span.name == CHECK}
    answered = {span.parent for span in spans if span.service == "gate-authorize" and span.name == CHECK}
    return len(whole) == 10 and bool(calls) and calls <= answered and all(span.parent in known for span in spans if span not in whole)


async def test_a_trace_goes_through_every_service_that_a_request_goes_through(split, backend):
    async with split.client() as browser:
        await sign_in(browser, split.url("/"), "alice")
        trace = 0x4BF92F3577B34DA6A3CE929D0E0E4736
        parent = {"traceparent": f"00-{trace:032x}-00f067aa0ba902b7-01"}
        for number in range(10):
            assert (await browser.get(split.url(f"/{number}"), headers=parent)).status_code == 200
        received = until(lambda: [span for span in backend.spans() if span.trace == trace], is_whole)
    assert {"gate-proxy", "gate-authorize"} <= {span.service for span in received}
    for requested in (span for span in received if span.service == "gate-authorize" and span.kind == "server"):
        (caller,) = [span for span in received if span.id == requested.parent]
        assert (caller.service, caller.kind, caller.name) == ("gate-proxy", "client", requested.name)
        assert requested.name == CHECK
        (evaluated,) = [span for span in received if span.id == caller.parent]
        assert (evaluated.service, evaluated.name) == ("gate-proxy", "authorize")
