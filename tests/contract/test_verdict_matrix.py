"""What does each plane answer to each kind of request with each credential, and what exactly is its upstream sent?  One table."""

import asyncio
import base64
import itertools
import json
import re
import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import grpc
import httpx
import pytest
from envoy.config.core.v3 import base_pb2
from envoy.service.auth.v3 import external_auth_pb2 as pb

from authorize.rpc.ext_authz import CHECK
from tests.support.children import free_port
from tests.support.development_provider import DevelopmentProvider, tokens_of
from tests.support.fake_idp import EC_KEY, public_jwk, signed
from tests.support.fork_server import run
from tests.support.gate import GateBuilder, RunningGate, sign_in
from tests.support.raw_http import RawClient
from tests.support.tunnels import TunnelClient, obtain_token
from tests.support.upstream import RecordingUpstream, TcpUpstream
from tests.support.websockets import KEY

APP, DB, REQUESTED = "app.localhost", "db.localhost", "auth.localhost"
ISSUER, AUDIENCE = "https://ci.example.com", "api://app"
OF_THE_ANSWER = ("content-length", "cache-control", "vary", "date")
FORWARDS = ("embedded", "envoy")  # on the other planes another proxy forwards the request


@dataclass(frozen=True)
class Kind:
    method: str
    lines: tuple[str, ...] = ()
    body: bytes = b""


HANDSHAKE = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {KEY.decode()}")
KINDS = {
    "page": Kind("GET", ("Accept: text/html",)),
    "plain": Kind("GET"),
    "body": Kind("POST", ("Content-Length: 2",), b"hi"),
    "events": Kind("GET", ("Accept: text/event-stream",)),
    "websocket": Kind("GET", HANDSHAKE),
    "spdy": Kind("POST", ("Connection: Upgrade", "Upgrade: SPDY/3.1", "Content-Length: 0")),
    "tcp": Kind("CONNECT"),
}

# The status says the verdict, in the order of the kinds above; "-": there is no such question.
VERDICTS = """
                         | embedded                    | envoy                       | forward auth              | ext_authz
                         | nav get pst sse  ws spd tcp | nav get pst sse  ws spd tcp | nav get pst sse  ws spd - | nav get pst sse  ws spd -
none                     | 302 401 401 401 401 401 401 | 302 401 401 401 401 401 401 | 401 401 401 401 401 401 - | 302 401 401 401 401 401 -
none, open to all        | 200 200 200 200 101 101 401 | 200 200 200 200 101 101 401 | 200 200 200 200 200 200 - | 200 200 200 200 200 200 -
cookie                   | 200 200 200 200 101 101 401 | 200 200 200 200 101 101 401 | 200 200 200 200 200 200 - | 200 200 200 200 200 200 -
cookie, for a cluster    | 200 200 200 200 101 101 401 | 200 200 200 200 101 101 401 | 403 403 403 403 403 403 - | 403 403 403 403 403 403 -
cookie, with its tokens  | 200 200 200 200 101 101 401 | 200 200 200 200 101 101 401 | 403 403 403 403 403 403 - | 403 403 403 403 403 403 -
program token            | 200 200 200 200 101 101 200 | 200 200 200 200 101 101 200 | 200 200 200 200 200 200 - | 200 200 200 200 200 200 -
in Proxy-Authorization   | 302 401 401 401 401 401 200 | 302 401 401 401 401 401 200 | 401 401 401 401 401 401 - | 302 401 401 401 401 401 -
as a bearer's            | 200 200 200 200 101 101 200 | 200 200 200 200 101 101 200 | 200 200 200 200 200 200 - | 200 200 200 200 200 200 -
query token              | 401 200 200 200 101 101 401 | 401 200 200 200 101 101 401 | 403 403 403 403 403 403 - | 403 403 403 403 403 403 -
query token, a browser   | 302 302 401 302 401 401 401 | 302 302 401 302 401 401 401 | 403 403 403 403 403 403 - | 403 403 403 403 403 403 -
service account          | 200 200 200 200 101 101 200 | 200 200 200 200 101 101 200 | 200 200 200 200 200 200 - | 200 200 200 200 200 200 -
ID token                 | 200 200 200 200 101 101 401 | 200 200 200 200 101 101 401 | 200 200 200 200 200 200 - | 200 200 200 200 200 200 -
access token             | 200 200 200 200 101 101 401 | 200 200 200 200 101 101 401 | 200 200 200 200 200 200 - | 200 200 200 200 200 200 -
another issuer's token   | 200 200 200 200 101 101 401 | 200 200 200 200 101 101 401 | 200 200 200 200 200 200 - | 200 200 200 200 200 200 -
a token that is not good | 401 401 401 401 401 401 401 | 401 401 401 401 401 401 401 | 401 401 401 401 401 401 - | 401 401 401 401 401 401 -
preflight                | 200 200 200 200 400 400 - | 200 200 200 200 400 400 - | 200 200 200 200 403 200 - | 200 200 200 200 403 200 -
preflight of a bearer    | 200 200 200 200 400 400 - | 200 200 200 200 400 400 - | 200 200 200 200 403 200 - | 200 200 200 200 403 200 -
in another proxy's words | 200 200 200 200 101 101 - | 200 200 200 200 101 101 - | 200 200 200 200 200 200 - | 200 200 200 200 200 200 -
who pretends those       | 200 200 200 200 101 101 - | 200 200 200 200 101 101 - | 403 403 403 403 403 403 - | 200 200 200 200 200 200 -
who spells those with _  | 200 200 200 200 101 101 - | 200 200 200 200 101 101 - | 403 403 403 403 403 403 - | 200 200 200 200 200 200 -
whose claim is missing   | 403 403 403 403 403 403 - | 403 403 403 403 403 403 - | 403 403 403 403 403 403 - | 403 403 403 403 403 403 -
who pretends             | 200 200 200 200 101 101 401 | 200 200 200 200 101 101 401 | 403 403 403 403 403 403 - | 200 200 200 200 200 200 -
"""

MINE, OF_THE_APP = "cookie: mine=1", "authorization: Bearer of.the.app"
FOR_APP = "for app.localhost:GATE"
ANONYMOUS = f"x-gate-jwt-assertion: <None {FOR_APP}>"
ACCOUNT = f"x-gate-jwt-assertion: <service_account/ci {FOR_APP}>"
JOB = f"x-gate-jwt-assertion: <{ISSUER}#repo:a/b {FOR_APP}>"
ACTING = ("authorization: Bearer of-the-cluster", "impersonate-user: alice@example.com", "impersonate-group: engineering")
ASKS = ("origin: https://spa.example", "access-control-request-method: GET")
ALICE = (f"x-gate-jwt-assertion: <oidc/alice {FOR_APP}>", "x-gate-claim-email: alice@example.com")
TOKENS = ("x-access-token: <token>", "x-id-token: <token>")
WITH_TOKENS = {
    "pass_provider_tokens": True,
    "set_request_headers": {"X-Of-Route": "1", "X-Access-Token": "${access_token}", "X-Id-Token": "${id_token}"},
}
TEXTS = {
    "identity_headers": "oauth2-proxy",
    "assertion_header": "X-Assertion",
    "assertion_audience": "my-app",
    "set_request_headers": {
        "X-Of-Route": "1",
        "X-WebAuth-User": "${claim.email}",
        "X-Missing": "${claim.unheard.of}",
        "Authorization": "App $$ ${user}",
    },
}
AS_TEXT = (
    *(f"{prefix}-{line}" for prefix in ("x-forwarded", "x-auth-request") for line in ("user: alice", "email: alice@example.com")),
    *(f"{prefix}-groups: engineering" for prefix in ("x-forwarded", "x-auth-request")),
    "x-assertion: <oidc/alice for my-app>",
    "x-webauth-user: alice@example.com",
    "authorization: App $ oidc/alice",
)
# Headers that a client can only forge, or that go no further; the route removes the last one.
PRETENDED = ("X-Real-Ip: 6.6.6.6", "X-Cut: 1")
REWRITTEN = {"prefix_rewrite": "/inner/", "host_rewrite": "inner.example"}
# Headers that gate sets itself when it forwards a request.
WRITTEN = (
    'forwarded: for=127.0.0.1;host="app.localhost:GATE";proto=https',
    "x-forwarded-for: 127.0.0.1",
    "x-forwarded-host: app.localhost:GATE",
    "x-forwarded-port: GATE",
    "x-forwarded-proto: https",
    "x-real-ip: 127.0.0.1",
    "x-of-route: 1",
    "x-request-id: <id>",
)


@dataclass
class Sent:
    """Headers that a client sends in addition to its kind's, and resulting upstream lines. No line contains a secret of `secrets`."""

    path: str
    lines: tuple[str, ...]
    seen: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    is_preflight: bool = False
    tunnel: tuple[str, ...] | None = None  # what is said instead where a tunnel is asked for
    target: str = ""  # the target that gate's upstream receives, if it differs
    host: str = "app.localhost:GATE"

    def kind(self, name: str) -> Kind:
        kind = KINDS[name]
        return Kind("OPTIONS", tuple(line for line in kind.lines if "Length" not in line)) if self.is_preflight else kind


@dataclass
class Stage:
    plane: str
    gate: RunningGate
    upstream: RecordingUpstream
    database: TcpUpstream
    grpc_port: int
    token: str
    sent: dict[str, Sent] = field(default_factory=dict)

    def ask(self, name: str, sent: Sent) -> tuple[str, str]:
        """(status, the request as its upstream sees it)."""
        self.upstream.received.clear()
        if name == "tcp":
            return self._tunnel(sent)
        kind, lines = sent.kind(name), (*sent.lines, *PRETENDED)
        if self.plane in FORWARDS:
            status, _ = self._send(kind.method, sent.path, APP, *kind.lines, *lines, body=kind.body)
            return str(status), self._normal(b"".join(self.upstream.received))
        # A proxy's check omits the headers of the client's connection.
        sent_lines = tuple(line for line in (*kind.lines, *lines) if not line.startswith(("Connection", "Upgrade", "Content-Length")))
        requested = (
            self._verify(kind.method, sent.path, sent_lines)
            if self.plane == "forward auth"
            else self._check(kind.method, sent.path, sent_lines)
        )
        status, replaced = requested
        forwarded = [f"{key}: {value}" for key, value in pairs(sent_lines) if key not in replaced]
        forwarded += [f"{key}: {value}" for key, values in replaced.items() for value in values if value]
        head = "\r\n".join([f"{kind.method} {sent.path} HTTP/1.1", *forwarded, "", ""])
        return str(status), self._normal(head.encode()) if status == 200 else ""

    def message(self, sent: Sent) -> str:
        """The text of the denied response."""
        if self.plane == "ext_authz":
            return self._requested("GET", sent.path, sent.lines).denied_response.body
        host, target = (REQUESTED, "/verify") if self.plane == "forward auth" else (APP, sent.path)
        front = (f"X-Original-URL: {self.gate.url(APP, sent.path)}",) if self.plane == "forward auth" else ()
        head = "\r\n".join([f"GET {target} HTTP/1.1", f"Host: {host}:{self.gate.port}", *front, *sent.lines, "", ""])
        with RawClient(self.gate.port, tls=self.gate.certificates.client_context(), server_name=APP) as client:
            return client.send(head.encode()).response().body.decode()

    def _send(self, method: str, target: str, host: str, *lines: str, body: bytes = b"") -> tuple[int, list[tuple[str, str]]]:
        head = "\r\n".join([f"{method} {target} HTTP/1.1", f"Host: {host}:{self.gate.port}", *lines, "", ""])
        with RawClient(self.gate.port, tls=self.gate.certificates.client_context(), server_name=APP) as client:
            answer = client.send(head.encode() + body).one_response("HEAD")
        return answer.status, answer.headers

    def _verify(self, method: str, path: str, lines: tuple[str, ...]) -> tuple[int, dict[str, list[str]]]:
        front = (f"X-Original-URL: {self.gate.url(APP, path)}", f"X-Forwarded-Method: {method}", "X-Forwarded-For: 127.0.0.1")
        status, output = self._send("GET", "/verify", REQUESTED, *front, *lines)
        return status, {name.lower(): [value] for name, value in output if name.lower() not in OF_THE_ANSWER}

    def _requested(self, method: str, path: str, lines: tuple[str, ...]) -> pb.CheckResponse:
        requested = pb.CheckRequest()
        requested.attributes.source.address.socket_address.address = "127.0.0.1"
        http = requested.attributes.request.http
        http.method, http.host, http.path, http.id = method, f"{APP}:{self.gate.port}", path, secrets.token_hex(16)
        http.headers.update(dict(pairs(lines)))
        with grpc.insecure_channel(f"127.0.0.1:{self.grpc_port}") as channel:
            call = channel.unary_unary(CHECK, pb.CheckRequest.SerializeToString, pb.CheckResponse.FromString)
            return call(requested, metadata=(("authorization", f"Bearer {self.token}"),), timeout=10)

    def _check(self, method: str, path: str, lines: tuple[str, ...]) -> tuple[int, dict[str, list[str]]]:
        answer = self._requested(method, path, lines)
        replaced: dict[str, list[str]] = {name: [] for name in answer.ok_response.headers_to_remove}
        for each in answer.ok_response.headers:
            is_added = each.append_action == base_pb2.HeaderValueOption.HeaderAppendAction.APPEND_IF_EXISTS_OR_ADD
            replaced[each.header.key] = [*(replaced.get(each.header.key, []) if is_added else []), each.header.value]
        return answer.denied_response.status.code or 200, replaced

    def _tunnel(self, sent: Sent) -> tuple[str, str]:
        if self.plane not in FORWARDS or sent.is_preflight or sent.tunnel == ():
            return "-", ""
        with TunnelClient(self.gate.port, DB) as client:
            status = client.open(f"{DB}:5432", *(sent.lines if sent.tunnel is None else sent.tunnel), *PRETENDED, ahead=b"first ")
            if status != 200:
                return str(status), ""
            upstream = self.database.accepted()
            client.send(b"then")
            client.finish()
            return "200", b"".join(iter(lambda: upstream.recv(65536), b"")).decode()

    def _normal(self, request: bytes) -> str:
        """Without what differs at every run, the lines of the head by their names; "" of none."""
        if not request:
            return ""
        text = request.decode("latin-1").replace(self.upstream.url.removeprefix("http://"), "UPSTREAM")
        text = re.sub(r"(?<=x-request-id: )\S+", "<id>", text.replace(str(self.gate.port), "GATE"))
        text = re.sub(r"(?<=-token: )\S{20,}", "<token>", text)
        text = re.sub(r"(?<=-assertion: )\S+", lambda match: user(match[0], self.gate.port), text)
        head, _, body = text.partition("\r\n\r\n")
        first, *lines = head.split("\r\n")
        return "\n".join([first, *sorted(f"{name}: {value}" for name, value in pairs(lines)), body])

    def expected(self, name: str, sent: Sent) -> str:
        if name == "tcp":
            return "first then"
        kind, lines = sent.kind(name), [*sent.seen, *(f"{key}: {value}" for key, value in pairs(sent.kind(name).lines))]
        target = sent.path
        if self.plane in FORWARDS:
            lines, target = [*lines, *WRITTEN, f"host: {sent.host}"], sent.target or sent.path
            if self.plane == "envoy" and sent.is_preflight:
                lines.append("content-length: 0")  # Envoy says so of what is neither GET nor HEAD
        else:
            # The rest is the carrier's own to say, and to take away.
            lines = [line for line in lines if not line.startswith(("connection", "upgrade", "content-length"))]
            lines += ["x-cut: 1", *(("x-real-ip: 6.6.6.6", "x-request-id: <id>") if self.plane == "forward auth" else ())]
        return "\n".join([f"{kind.method} {target} HTTP/1.1", *sorted(lines), kind.body.decode() if self.plane in FORWARDS else ""])


def pairs(lines: Iterable[str]) -> list[tuple[str, str]]:
    return [(name.lower(), value) for name, _, value in (line.partition(": ") for line in lines)]


def user(assertion: str, port: int) -> str:
    payload = assertion.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return f"<{claims.get('sub')} for {claims['aud']}>".replace(str(port), "GATE")


def service_account(gate: RunningGate) -> str:
    done = run("manage.py", "serviceaccount", "create", "ci", "--group", "engineering", "-config", gate.config_file)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def foreign_token() -> str:
    now = int(time.time())
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "repo:a/b", "repository": "a/b", "iat": now, "exp": now + 600}
    return signed({"alg": "ES256", "typ": "JWT", "kid": "fixed"}, claims, EC_KEY, "ES256")


async def all_sent(gate: RunningGate, provider: DevelopmentProvider) -> dict[str, Sent]:
    async with gate.client() as client:
        await sign_in(client, gate.url(APP), "alice")
        cookies = "; ".join(f"{each.name}={each.value}" for each in client.cookies.jar if each.domain == APP)
        program = await obtain_token(client, gate.url(APP, "").rstrip("/"), "alice")
        tunnel = await obtain_token(client, gate.url(DB, "").rstrip("/"), "alice")
    provided, account, foreign = await tokens_of(provider.url, "alice"), service_account(gate), foreign_token()
    own = next(pair.partition("=")[2] for pair in cookies.split("; ") if pair.startswith("_gate="))
    mine, app, alice = "Cookie: mine=1", "Authorization: Bearer of.the.app", f"Cookie: mine=1; {cookies}"
    asks = ("Origin: https://spa.example", "Access-Control-Request-Method: GET")

    def token(path: str, scheme: str, value: str, *lines: str, **more: Any) -> Sent:
        return Sent(path, (mine, f"Authorization: {scheme}{value}"), (MINE, *lines), (value,), **more)

    return {
        "none": Sent("/", (mine,)),
        "none, open to all": Sent("/open/", (mine, app), (MINE, OF_THE_APP, ANONYMOUS), target="/inner/", host="inner.example"),
        "cookie": Sent("/", (alice, app), (MINE, OF_THE_APP, *ALICE), (own,)),
        "cookie, for a cluster": Sent("/cluster/", (alice,), (MINE, *ACTING), (own,)),
        "cookie, with its tokens": Sent("/tokens/", (alice, app, "X-Id-Token: forged"), (MINE, OF_THE_APP, *TOKENS), (own, "forged")),
        "in another proxy's words": Sent("/words/", (alice, app), (MINE, *AS_TEXT), (own, "of.the.app"), tunnel=()),
        "who pretends those": Sent(
            "/words/", (alice, "X-Auth-Request-Email: evil@example.com", "X-Missing: evil"), (MINE, *AS_TEXT), (own, "evil"), tunnel=()
        ),
        # Which our own listener leaves out, and a server that maps headers to variables takes for the same.
        "who spells those with _": Sent(
            "/words/", (alice, "X_Auth_Request_Email: evil@example.com", "X_Missing: evil"), (MINE, *AS_TEXT), (own, "evil"), tunnel=()
        ),
        "whose claim is missing": Sent("/missing/", (alice,), tunnel=()),
        "program token": token("/", "Gate ", program, *ALICE, tunnel=(f"Authorization: Gate {tunnel}",)),
        "in Proxy-Authorization": Sent(
            "/", (mine, f"Proxy-Authorization: Gate {program}"), tunnel=(f"Proxy-Authorization: Gate {tunnel}",)
        ),
        "as a bearer's": token("/", "Bearer Gate-", program, *ALICE, tunnel=(f"Authorization: Bearer Gate-{tunnel}",)),
        # The token in the query identifies the client, so the header belongs to the application.
        "query token": Sent(f"/?gate_session={program}&x=1", (mine, app), (MINE, OF_THE_APP, *ALICE), (program,), target="/?x=1"),
        "query token, a browser": Sent(f"/?gate_session={program}&x=1", (mine, "Sec-Fetch-Mode: navigate"), (), (program,)),
        "service account": token("/", "Bearer ", account, ACCOUNT),
        "ID token": token("/id/", "Bearer ", provided["id_token"], *ALICE),
        "access token": token("/access/", "Bearer ", provided["access_token"], *ALICE),
        "another issuer's token": token("/foreign/", "Bearer ", foreign, JOB),
        "a token that is not good": token("/", "Bearer ", f"Gate-{'x' * 80}"),
        "preflight": Sent("/", (alice, app, *asks), ASKS, (own, "of.the.app"), is_preflight=True),
        "preflight of a bearer": Sent("/id/", (mine, f"Authorization: Bearer {provided['id_token']}", *asks), ASKS, (), is_preflight=True),
        "who pretends": Sent(
            "/open/", (mine, "X-Gate-Claim-Email: evil@example.com"), (MINE, ANONYMOUS), target="/inner/", host="inner.example"
        ),
    }


@pytest.fixture(scope="module", params=["embedded", "envoy", "forward auth", "ext_authz"])
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    directory, token, grpc_port = tmp_path_factory.mktemp("matrix"), secrets.token_urlsafe(32), free_port()
    (directory / "keys.json").write_text(json.dumps({"keys": [public_jwk(EC_KEY, "ES256", "fixed")]}))
    with ExitStack() as stack:
        provider, upstream = stack.enter_context(DevelopmentProvider()), stack.enter_context(RecordingUpstream())
        database = stack.enter_context(TcpUpstream())
        keys = {
            "to": upstream.url,
            "allow_websockets": True,
            "allow_spdy": True,
            "cors_allow_preflight": True,
            "pass_identity_headers": True,
            "set_request_headers": {"X-Of-Route": "1"},
            "remove_request_headers": ["X-Cut"],
        }
        people = {**keys, "allowed_groups": ["engineering"]}
        foreign = {"bearer_token": "jwt", "bearer_token_issuer": ISSUER, "bearer_token_audience": [AUDIENCE]}
        builder = (
            GateBuilder(provider.url)
            .route(APP, prefix="/open/", **keys, **REWRITTEN, allow_public_unauthenticated_access=True)
            .route(APP, prefix="/cluster/", **{**people, "pass_identity_headers": False}, cluster_service_account_token="of-the-cluster")
            .route(APP, prefix="/tokens/", **{**people, "pass_identity_headers": False, **WITH_TOKENS})
            .route(APP, prefix="/words/", **{**people, "pass_identity_headers": False, **TEXTS})
            .route(APP, prefix="/missing/", **{**people, "set_request_headers": {"Authorization": "Bearer ${claim.unheard.of}"}})
            .route(APP, prefix="/id/", **people, bearer_token="idp_id_token")
            .route(APP, prefix="/access/", **people, bearer_token="idp_access_token", bearer_token_audience="*")
            .route(
                APP, prefix="/foreign/", **keys, **foreign, bearer_token_jwks_file=str(directory / "keys.json"),
                allowed_idp_claims={"repository": ["a/b"]},
            )
            .route(APP, **people)
            .route(DB, to=upstream.url, allowed_groups=["engineering"])
            .setting(
                groups_claim="groups",
                jwt_claims_headers=["email"],
                data_plane="envoy" if request.param == "envoy" else "embedded",
                trusted_proxies=["127.0.0.1/32"] if request.param == "forward auth" else [],
                grpc_address=f"127.0.0.1:{grpc_port}",
                grpc_insecure=True,
                metrics_address=f"127.0.0.1:{free_port()}",
                ext_authz_tokens=[token],
            )
        )  # fmt: skip
        builder.setting(forward_auth_url=builder.url(REQUESTED, ""))
        if request.param in ("embedded", "envoy"):
            builder.policy.append({"from": f"tcp+https://{DB}:5432", "to": database.url, "allowed_groups": ["engineering"]})
        gate = stack.enter_context(builder.start(directory))
        yield Stage(request.param, gate, upstream, database, grpc_port, token, asyncio.run(all_sent(gate, provider)))


def expected_verdicts() -> dict[tuple[str, str, str], str]:
    """(credential, plane, kind) -> status."""
    found: dict[tuple[str, str, str], str] = {}
    header, _, *rows = VERDICTS.strip("\n").splitlines()
    planes = [name.strip() for name in header.split("|")[1:]]
    for row in rows:
        credential, *columns = (column.strip() for column in row.split("|"))
        for plane, column in zip(planes, columns, strict=True):
            found |= {(credential, plane, kind): status for kind, status in zip(KINDS, column.split(), strict=True)}
    return found


def test_every_verdict_and_every_byte_that_an_upstream_sees(stage: Stage) -> None:
    verdicts, invalid = expected_verdicts(), []
    assert {credential for credential, _, _ in verdicts} == set(stage.sent)
    for (credential, sent), kind in itertools.product(stage.sent.items(), KINDS):
        status, seen = stage.ask(kind, sent)
        passes = status in ("200", "101")
        expected = verdicts[credential, stage.plane, kind], stage.expected(kind, sent) if passes else ""
        if (status, seen) != expected or any(secret in seen for secret in sent.secrets):
            invalid.append(f"{credential}, {kind}: {status}\n{seen}\nand not {expected[0]}\n{expected[1]}")
    assert not invalid, "\n\n".join(invalid)


def decisions(gate: RunningGate) -> dict[str, float]:
    text = httpx.get(f"http://{gate.builder.settings['metrics_address']}/metrics", trust_env=False, timeout=30).text
    samples = (line.rpartition(" ") for line in text.splitlines() if line.startswith("gate_decisions_total{"))
    return {name: float(value) for name, _, value in samples}


@pytest.mark.parametrize(
    ("credential", "labels"),
    [
        ("none", ('outcome="sign in"', 'reason="not_signed_in"')),
        ("none, open to all", ('outcome="allowed"', 'reason="public"')),
        ("cookie", ('outcome="allowed"', 'reason="group_listed"')),
    ],
)
def test_each_request_is_one_decision_in_the_metrics(stage: Stage, credential: str, labels: tuple[str, str]) -> None:
    before = decisions(stage.gate)
    stage.ask("plain", stage.sent[credential])
    (counted,) = {name: value for name, value in decisions(stage.gate).items() if value != before.get(name, 0)}.items()
    assert counted[1] == before.get(counted[0], 0) + 1
    assert all(label in counted[0] for label in labels), counted


def test_a_refusal_for_a_missing_claim_names_it(stage: Stage) -> None:
    """An application that reads `Authorization` would attribute a request without it to another user."""
    assert "claim.unheard.of" in stage.message(stage.sent["whose claim is missing"])
    assert stage.message(Sent("/missing/", ("Cookie: mine=1",))).find("unheard") == -1, "who is not signed in learns nothing of it"


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
@pytest.mark.parametrize("stage", ["embedded", "envoy"], indirect=True)
def test_no_link_makes_a_browser_act_as_its_author(stage: Stage, line: str) -> None:
    for kind in ("plain", "body", "events", "websocket", "spdy"):
        assert stage.ask(kind, Sent(stage.sent["query token"].path, ("Cookie: mine=1", line))) in (("302", ""), ("401", ""))
