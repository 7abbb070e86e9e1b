"""`http3: true`: who comes by QUIC gets what they would get by TCP, and nothing else."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from aioquic.tls import SessionTicket

from foundation.errors import ConfigError
from tests.support.client_certificates import authority
from tests.support.cookies import client_cookies
from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import AUTHENTICATE_HOST, GateBuilder, RunningGate, sign_in, sign_out
from tests.support.http3_client import Http3Client, Http3Response, http3_client
from tests.support.options import make_options
from tests.support.raw_http import RawClient
from tests.support.reloading import reload
from tests.support.upstream import SampleUpstream

APP, OPEN, CERTIFIED, GRPC, HERE, ANONYMOUS = (
    f"{name}.localhost" for name in ("app", "open", "certified", "grpc", "here.of-all", "nobody")
)


@pytest.fixture(scope="module")
def gate(provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGate]:
    directory = tmp_path_factory.mktemp("gate")
    (directory / "ca.pem").write_bytes(authority().pem)
    builder = (
        GateBuilder(provider.url)
        .route(APP, to=upstream.url, allow_any_authenticated_user=True, pass_identity_headers=True)
        .route(OPEN, to=upstream.url, allow_public_unauthenticated_access=True)
        .route(
            CERTIFIED, to=upstream.url, allow_public_unauthenticated_access=True, tls_downstream_client_ca_file=str(directory / "ca.pem")
        )
        .route(GRPC, to=upstream.url, allow_public_unauthenticated_access=True, upstream_http2=True)
        .route("*.of-all.localhost", to=upstream.url, allow_public_unauthenticated_access=True)
        .route(HERE, to=upstream.url, policy=[{"allow": {"source_ip": "127.0.0.0/8"}}])
        .setting(data_plane="envoy", http3=True)
    )
    with builder.start(directory) as running:
        yield running


Connecting = Callable[..., AbstractAsyncContextManager[Http3Client]]


@pytest.fixture
def connect(gate: RunningGate) -> Connecting:
    def connecting(server_name: str, **options: Any) -> AbstractAsyncContextManager[Http3Client]:
        return http3_client(gate.port, server_name, gate.certificates.authority, **options)

    return connecting


def over_tcp(gate: RunningGate, host: str) -> str | None:
    """The `Alt-Svc` header of a host in a response over TCP."""
    with RawClient(gate.port, tls=gate.certificates.client_context(), server_name=host) as client:
        return client.send(f"GET / HTTP/1.1\r\nHost: {host}:{gate.port}\r\n\r\n".encode()).response().header("alt-svc")


def incoming(answer: Http3Response) -> dict[str, Any]:
    """The request that the application received; each header once."""
    found: dict[str, Any] = json.loads(answer.body)
    found["headers"] = dict(found["headers"])
    return found


async def test_alt_svc_header(gate: RunningGate) -> None:
    received = f'h3=":{gate.port}"; ma=86400'
    assert {host: over_tcp(gate, host) for host in (AUTHENTICATE_HOST, APP, OPEN, CERTIFIED, GRPC, HERE)} == {
        AUTHENTICATE_HOST: received,
        APP: received,
        OPEN: received,
        CERTIFIED: None,
        GRPC: None,
        HERE: None,
    }
    async with gate.client() as client:
        page = await sign_in(client, gate.url(APP), "alice")  # this one is carried by Envoy itself
        assert (page.status_code, page.headers["alt-svc"]) == (200, received)


async def test_only_signed_in_users_are_allowed(gate: RunningGate, connect: Connecting) -> None:
    authority_ = f"{APP}:{gate.port}"
    async with gate.client() as client, connect(APP) as by_quic:
        anonymous = await by_quic.get(authority_, "/x", headers=[("accept", "text/html")])
        assert anonymous.status == 302
        assert urlsplit(anonymous.headers["location"]).hostname == AUTHENTICATE_HOST
        assert (await sign_in(client, gate.url(APP), "alice")).status_code == 200
        cookie = ("cookie", client_cookies(client, APP))
        forged = [("x-gate-edge-judged", "x"), ("x-gate-jwt-assertion", "x"), ("x-forwarded-for", "9.9.9.9"), ("x-envoy-internal", "true")]
        page = await by_quic.get(authority_, "/x?a=%2F", headers=[cookie, *forged])
        assert page.status == 200
        received = incoming(page)
        assert (received["method"], received["target"]) == ("GET", "/x?a=%2F")
        assert received["headers"]["x-forwarded-for"] == "127.0.0.1"
        assert not {"cookie", "x-gate-edge-judged", "x-envoy-internal"} & received["headers"].keys()
        assert received["headers"]["x-gate-jwt-assertion"].count(".") == 2
        posted = await by_quic.get(authority_, "/form", method="POST", headers=[cookie, ("content-length", "300000")], body=b"a" * 300_000)
        assert incoming(posted)["body"] == "a" * 300_000


async def test_open_streams_end_with_the_session(gate: RunningGate, connect: Connecting) -> None:
    async with gate.client() as client, connect(APP) as by_quic:
        assert (await sign_in(client, gate.url(APP), "alice")).status_code == 200
        cookie = [("cookie", client_cookies(client, APP))]
        drip = by_quic.send(f"{APP}:{gate.port}", "/drip", headers=cookie)
        await drip.until(lambda: len(drip.body) > 20)
        await sign_out(client, gate)
        await drip.until_ended()
        assert drip.is_reset
        assert not drip.is_complete
        assert (await by_quic.get(f"{APP}:{gate.port}", headers=[*cookie, ("accept", "text/html")])).status == 302


@pytest.mark.parametrize("host", [CERTIFIED, GRPC, ANONYMOUS])
async def test_other_hosts_are_not_there(host: str, gate: RunningGate, connect: Connecting) -> None:
    with pytest.raises(ConnectionError):
        async with connect(host, idle_timeout=3.0) as by_quic:
            await by_quic.get(f"{host}:{gate.port}")


@pytest.mark.parametrize("host", [CERTIFIED, GRPC, HERE, ANONYMOUS, f"{HERE}.", HERE.upper()])
async def test_other_hosts_are_not_reached_by_a_connection_to_one_that_is_there(host: str, gate: RunningGate, connect: Connecting) -> None:
    async with connect(OPEN) as by_quic:
        assert (await by_quic.get(f"{host}:{gate.port}")).status == 421
        assert (await by_quic.get(host)).status == 421
        both = await by_quic.get(f"{OPEN}:{gate.port}", headers=[("host", f"{host}:{gate.port}")])
        assert both.status != 200 or incoming(both)["headers"]["x-forwarded-host"] == f"{OPEN}:{gate.port}"


async def test_nothing_is_taken_before_the_handshake_is_over(gate: RunningGate, connect: Connecting) -> None:
    """Early data could be sent once more by anybody who saw it."""
    tickets: list[SessionTicket] = []
    async with connect(OPEN, tickets=tickets) as by_quic:
        assert (await by_quic.get(f"{OPEN}:{gate.port}")).status == 200
        await by_quic.ping()
    assert tickets
    assert all(not ticket.max_early_data_size for ticket in tickets)


async def test_no_tunnel_begins_here(gate: RunningGate, connect: Connecting) -> None:
    async with connect(OPEN) as by_quic:
        stream = by_quic.send(f"{OPEN}:{gate.port}", "/", "CONNECT")
        await stream.until_ended()
        assert stream.status not in (101, *range(200, 300))


async def test_access_line_for_each(gate: RunningGate, connect: Connecting) -> None:
    async with connect(OPEN) as by_quic:
        assert (await by_quic.get(f"{OPEN}:{gate.port}", "/seen-by-quic")).status == 200
    gate.child.wait_for(lambda: any(entry.get("path") == "/seen-by-quic" for entry in gate.log), "its line")


async def test_it_comes_and_goes_with_the_configuration(gate: RunningGate, connect: Connecting) -> None:
    reload(gate, http3=False)
    assert over_tcp(gate, OPEN) is None
    with pytest.raises(ConnectionError):
        async with connect(OPEN, idle_timeout=3.0):
            pass
    reload(gate, http3=True)
    async with connect(OPEN) as by_quic:
        assert (await by_quic.get(f"{OPEN}:{gate.port}")).status == 200


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"data_plane": "embedded"}, "needs data_plane: envoy"),
        ({"insecure_server": True}, "requires TLS terminated by gate"),
        ({"use_proxy_protocol": True}, "use_proxy_protocol"),
    ],
)
def test_where_it_can_not_be_it_is_refused(settings: dict[str, Any], text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        make_options(tmp_path, **{"data_plane": "envoy", "http3": True, "insecure_server": None, **settings})
    assert [(problem.key, text in problem.message) for problem in refused.value.problems if problem.key == "http3"] == [("http3", True)]
