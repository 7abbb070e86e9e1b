"""Which credentials reach an upstream?  Every data plane, kind of request and credential, by the bytes that the upstream was sent."""

import asyncio
import itertools
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest

from tests.support.children import ROOT, clean_environment, free_port
from tests.support.development_provider import DevelopmentProvider, tokens_of
from tests.support.fake_idp import EC_KEY, public_jwk, signed
from tests.support.gate import GateBuilder, RunningGate, sign_in
from tests.support.raw_http import RawClient
from tests.support.recording_upstream import RecordingUpstream
from tests.support.tcp_upstream import TcpUpstream
from tests.support.tunnels import TunnelClient, token_of
from tests.support.websockets import KEY

pytestmark = pytest.mark.slow

APP, DB = "app.localhost", "db.localhost"
ISSUER, AUDIENCE = "https://ci.example.com", "api://app"
CARRYING = (b"cookie", b"authorization", b"proxy-authorization", b"x-serverless-authorization")
OF_THE_APP = "Authorization: Bearer of.the.app"
HANDSHAKE = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {KEY.decode()}")
KINDS = {
    "plain": ("GET", (), b""),
    "body": ("POST", ("Content-Length: 2",), b"hi"),
    "events": ("GET", ("Accept: text/event-stream",), b""),
    "websocket": ("GET", HANDSHAKE, b""),
    "spdy": ("POST", ("Connection: Upgrade", "Upgrade: SPDY/3.1", "Content-Length: 0"), b""),
}
NO_PREFLIGHT = ("websocket", "spdy")


@dataclass
class Sent:
    """What a client says besides its kind, and all that an upstream may learn of it."""

    path: str
    lines: tuple[str, ...]
    seen: list[tuple[bytes, bytes]]
    secrets: tuple[str, ...] = ()
    is_preflight: bool = False


MINE = (b"cookie", b"mine=1")


@dataclass
class Stage:
    gate: RunningGate
    upstream: RecordingUpstream
    database: TcpUpstream
    sent: dict[str, Sent] = field(default_factory=dict)
    token: str = ""

    def ask(self, kind: str, sent: Sent) -> int:
        method, lines, body = KINDS[kind]
        if sent.is_preflight:
            lines, body = tuple(line for line in lines if not line.startswith("Content-Length")), b""
        head = [f"{'OPTIONS' if sent.is_preflight else method} {sent.path} HTTP/1.1", f"Host: {APP}:{self.gate.port}", *lines, *sent.lines]
        with RawClient(self.gate.port, tls=self.gate.certificates.client_context(), server_name=APP) as client:
            return client.send("\r\n".join([*head, "", ""]).encode() + body).one_response("HEAD").status


def opens_tunnels(builder: GateBuilder) -> bool:
    """Envoy opens none for gate: a route for TCP is an error in its configuration."""
    return builder.settings["data_plane"] == "embedded"


def service_account(gate: RunningGate) -> str:
    done = subprocess.run(
        [sys.executable, "manage.py", "serviceaccount", "create", "ci", "--group", "engineering", "-config", str(gate.config_file)],
        cwd=ROOT, env=clean_environment(), capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return done.stdout.strip()


def foreign_token() -> str:
    now = int(time.time())
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "repo:a/b", "repository": "a/b", "iat": now, "exp": now + 600}
    return signed({"alg": "ES256", "typ": "JWT", "kid": "fixed"}, claims, EC_KEY, "ES256")


async def all_sent(gate: RunningGate, provider: DevelopmentProvider) -> tuple[dict[str, Sent], str]:
    async with gate.client() as client:
        await sign_in(client, gate.url(APP), "alice")
        cookies = "; ".join(f"{each.name}={each.value}" for each in client.cookies.jar if each.domain == APP)
        program = await token_of(client, gate.url(APP, "").rstrip("/"), "alice")
        tunnel = await token_of(client, gate.url(DB, "").rstrip("/"), "alice") if opens_tunnels(gate.builder) else ""
    provided, account, foreign = await tokens_of(provider.url, "alice"), service_account(gate), foreign_token()

    def token(path: str, value: str) -> Sent:
        return Sent(path, ("Cookie: mine=1", f"Authorization: Bearer {value}"), [MINE], (value,))

    mine = "Cookie: mine=1"
    asks = ("Origin: https://spa.example", "Access-Control-Request-Method: GET")
    own = next(pair.partition("=")[2] for pair in cookies.split("; ") if pair.startswith("_gate="))
    sent = {
        "none": Sent("/open/", (mine, OF_THE_APP), [MINE, (b"authorization", b"Bearer of.the.app")]),
        "cookie": Sent("/", (f"Cookie: mine=1; {cookies}", OF_THE_APP), [MINE, (b"authorization", b"Bearer of.the.app")], (own,)),
        "program token": Sent("/", (mine, f"Authorization: Gate {program}"), [MINE], (program,)),
        "program token as a bearer's": token("/", f"Gate-{program}"),
        "query token": Sent(f"/?gate_session={program}&x=1", (mine, OF_THE_APP), [MINE], (program,)),
        "service account": token("/", account),
        "ID token": token("/id/", provided["id_token"]),
        "access token": token("/access/", provided["access_token"]),
        "another issuer's token": token("/foreign/", foreign),
        "preflight": Sent("/", (f"Cookie: mine=1; {cookies}", OF_THE_APP, *asks), [], (own, "of.the.app"), is_preflight=True),
        "preflight of a bearer": Sent("/id/", (mine, f"Authorization: Bearer {provided['id_token']}", *asks), [], is_preflight=True),
    }
    # Who carries a token in the query has said who they are; what is in the header is then the application's.
    sent["query token"].seen.append((b"authorization", b"Bearer of.the.app"))
    return sent, tunnel


@pytest.fixture(scope="module", params=["embedded", "envoy"])
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    directory = tmp_path_factory.mktemp(request.param)
    (directory / "keys.json").write_text(json.dumps({"keys": [public_jwk(EC_KEY, "ES256", "fixed")]}))
    with ExitStack() as stack:
        provider, upstream = stack.enter_context(DevelopmentProvider()), stack.enter_context(RecordingUpstream())
        database = stack.enter_context(TcpUpstream())
        keys = {"to": upstream.url, "allow_websockets": True, "allow_spdy": True, "cors_allow_preflight": True}
        people = {**keys, "allowed_groups": ["engineering"]}
        foreign = {"bearer_token": "jwt", "bearer_token_issuer": ISSUER, "bearer_token_audience": [AUDIENCE]}
        builder = (
            GateBuilder(provider.url)
            .route(APP, prefix="/open/", **keys, allow_public_unauthenticated_access=True)
            .route(APP, prefix="/id/", **people, bearer_token="idp_id_token")
            .route(APP, prefix="/access/", **people, bearer_token="idp_access_token", bearer_token_audience="*")
            .route(
                APP, prefix="/foreign/", **keys, **foreign, bearer_token_jwks_file=str(directory / "keys.json"),
                allowed_idp_claims={"repository": ["a/b"]},
            )
            .route(APP, **people)
            .setting(groups_claim="groups", data_plane=request.param, grpc_address=f"127.0.0.1:{free_port()}")
        )  # fmt: skip
        builder.route(DB, to=upstream.url, allowed_groups=["engineering"])
        if opens_tunnels(builder):
            builder.policy.append({"from": f"tcp+https://{DB}:5432", "to": database.url, "allowed_groups": ["engineering"]})
        gate = stack.enter_context(builder.start(directory))
        sent, token = asyncio.run(all_sent(gate, provider))
        yield Stage(gate, upstream, database, sent, token)


def carried(received: bytes) -> list[tuple[bytes, bytes]]:
    lines = received.partition(b"\r\n\r\n")[0].split(b"\r\n")[1:]
    pairs = [(name.lower(), value) for name, _, value in (line.partition(b": ") for line in lines)]
    return [pair for pair in pairs if pair[0] in CARRYING]


@pytest.mark.parametrize("kind", KINDS)
def test_an_upstream_sees_the_applications_credentials_and_none_that_were_for_gate(stage: Stage, kind: str) -> None:
    for name, sent in stage.sent.items():
        stage.upstream.received.clear()
        status = stage.ask(kind, sent)
        if sent.is_preflight and kind in NO_PREFLIGHT:
            assert (status, stage.upstream.received) == (400, []), name
            continue
        assert status == (101 if kind in NO_PREFLIGHT else 200), name
        (received,) = stage.upstream.received
        assert sorted(carried(received)) == sorted(sent.seen), name
        assert not [secret for secret in sent.secrets if secret.encode() in received], name
        assert received.split(b" ")[1] == sent.path.replace("gate_session=" + (sent.secrets or ("",))[0] + "&", "").encode(), name


@pytest.mark.parametrize(
    "line",
    [
        "Sec-Fetch-Site: none",
        "Sec-Fetch-Mode: cors",
        "Sec-CH-UA: x",
        "Accept: text/html,*/*;q=0.8",
        "User-Agent: Mozilla/5.0 (X11) Gecko/1",
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_no_link_makes_a_browser_act_as_its_author(stage: Stage, kind: str, line: str) -> None:
    stage.upstream.received.clear()
    path = stage.sent["query token"].path
    assert stage.ask(kind, Sent(path, ("Cookie: mine=1", line), [])) in (302, 401)
    assert stage.upstream.received == []


@pytest.mark.parametrize("stage", ["embedded"], indirect=True)
def test_a_tunnel_carries_what_its_ends_say_and_nothing_of_how_it_was_opened(stage: Stage) -> None:
    forms = (f"Authorization: Gate {stage.token}", f"Proxy-Authorization: Gate {stage.token}")
    for line, ahead in itertools.product(forms, (b"", b"first ")):
        with TunnelClient(stage.gate.port, DB) as client:
            assert client.open(f"{DB}:5432", line, "Cookie: mine=1", ahead=ahead) == 200
            upstream = stage.database.accepted()
            client.send(b"then")
            client.finish()
            received = b""
            while data := upstream.recv(65536):
                received += data
            assert received == ahead + b"then"
