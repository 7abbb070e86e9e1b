"""A denied client gets the same response on every plane; the request id leads the operator to the reason in log, decision log, command."""

import asyncio
import json
import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
from envoy.service.auth.v3 import external_auth_pb2 as pb

from authorize.rpc.ext_authz import CHECK
from foundation.auth_challenges import INSUFFICIENT_SCOPE, INVALID_TOKEN, UNAUTHENTICATED
from foundation.crypto.service_account_token import new_token
from tests.support.children import free_port
from tests.support.development_provider import DevelopmentProvider
from tests.support.fake_idp import EC_KEY, OTHER_RSA_KEY, public_jwk, signed
from tests.support.fork_server import run
from tests.support.gate import GateBuilder, RunningGate
from tests.support.raw_http import RawClient
from tests.support.upstream import SampleUpstream
from tests.support.websockets import KEY

APP, REQUESTED = "app.localhost", "auth.localhost"
ISSUER, AUDIENCE = "https://ci.example.com", "api://app"
FOREIGN = {"bearer_token": "jwt", "bearer_token_issuer": ISSUER, "bearer_token_audience": [AUDIENCE]}
HANDSHAKE = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {KEY.decode()}")
KINDS = {
    "script": ("Sec-Fetch-Mode: cors", "Accept: application/json"),
    "websocket": HANDSHAKE,
    "gRPC": ("Content-Type: application/grpc", "TE: trailers"),
}


@dataclass
class Refused:
    path: str
    line: str
    status: int
    challenge: str
    reason: str = ""  # part of it; "" where no token was shown


def foreign(*, key: Any = EC_KEY, algorithm: str = "ES256", kid: str = "fixed", **claims: Any) -> str:
    now = int(time.time())
    report = {"iss": ISSUER, "aud": AUDIENCE, "sub": "job", "repository": "a/b", "iat": now, "exp": now + 600, **claims}
    return f"Authorization: Bearer {signed({'alg': algorithm, 'typ': 'JWT', 'kid': kid}, report, key, algorithm)}"


def refusals() -> dict[str, Refused]:
    ended = int(time.time()) - 3600
    return {
        "nobody": Refused("/", "", 401, UNAUTHENTICATED),
        "the application's own": Refused("/", "Authorization: Bearer of.the.app", 401, UNAUTHENTICATED),
        "program token": Refused("/", f"Authorization: Gate {'x' * 80}", 401, INVALID_TOKEN, "program token: "),
        "as a bearer's": Refused("/", f"Authorization: Bearer Gate-{'x' * 80}", 401, INVALID_TOKEN, "program token"),
        "account": Refused("/", f"Authorization: Bearer {new_token('ci')}", 401, INVALID_TOKEN, "service account ci: not found"),
        "mistyped": Refused("/", f"Authorization: Bearer {new_token('ci')[:-1]}x", 401, INVALID_TOKEN, "service account"),
        "expired": Refused("/ci/", foreign(exp=ended), 401, INVALID_TOKEN, "expired"),
        "audience": Refused("/ci/", foreign(aud="api://other"), 401, INVALID_TOKEN, "another audience"),
        "issuer": Refused("/ci/", foreign(iss="https://evil.example"), 401, INVALID_TOKEN, "another issuer"),
        "key": Refused("/ci/", foreign(kid="unknown"), 401, INVALID_TOKEN, "does not publish"),
        "signature": Refused("/ci/", foreign(kid="fixed")[:-8] + "AAAAAAAA", 401, INVALID_TOKEN, "signature"),
        "algorithm": Refused("/ci/", foreign(key=OTHER_RSA_KEY, algorithm="RS256"), 401, INVALID_TOKEN, "jwt: "),
        "no token": Refused("/ci/", "Authorization: Bearer not-a-jwt-at-all", 401, INVALID_TOKEN, "not a signed token"),
        "too little": Refused("/ci/", foreign(repository="evil/app"), 403, INSUFFICIENT_SCOPE),
        "nobody can tell": Refused("/away/", foreign(), 503, ""),
    }


@dataclass
class Stage:
    plane: str
    gate: RunningGate
    grpc_port: int
    token: str
    application: SampleUpstream
    refusals: dict[str, Refused] = field(default_factory=refusals)

    def ask(self, path: str, *lines: str) -> tuple[int, dict[str, str]]:
        """(status, headers) as the client of this plane would see them."""
        match self.plane:
            case "forward auth":
                return self._send(f"/verify?uri={self.gate.url(APP, path)}", REQUESTED, *lines)
            case "ext_authz":
                return asyncio.run(self._check(path, *lines))
            case _:
                return self._send(path, APP, *lines)

    def _send(self, target: str, host: str, *lines: str) -> tuple[int, dict[str, str]]:
        # A proxy that asks for a verdict omits the headers of the client's connection.
        stored = [line for line in lines if line and not (host == REQUESTED and line.startswith(("Connection:", "Upgrade:", "TE:")))]
        head = "\r\n".join([f"GET {target} HTTP/1.1", f"Host: {host}:{self.gate.port}", *stored, "", ""])
        with RawClient(self.gate.port, tls=self.gate.certificates.client_context(), server_name=APP) as client:
            answer = client.send(head.encode()).response()
        return answer.status, {name.lower(): value for name, value in answer.headers}

    async def _check(self, path: str, *lines: str) -> tuple[int, dict[str, str]]:
        requested = pb.CheckRequest()
        requested.attributes.source.address.socket_address.address = "127.0.0.1"
        http = requested.attributes.request.http
        http.method, http.host, http.path, http.id = "GET", f"{APP}:{self.gate.port}", path, secrets.token_hex(16)
        for name, _, value in (line.partition(": ") for line in lines if line):
            http.headers[name.lower()] = value
        async with grpc.aio.insecure_channel(f"127.0.0.1:{self.grpc_port}") as channel:
            call = channel.unary_unary(
                CHECK, request_serializer=pb.CheckRequest.SerializeToString, response_deserializer=pb.CheckResponse.FromString
            )
            answer = await call(requested, metadata=(("authorization", f"Bearer {self.token}"),), timeout=10)
        denied = answer.denied_response
        return denied.status.code, {each.header.key.lower(): each.header.value for each in denied.headers}


@pytest.fixture(scope="module", params=["embedded", "envoy", "forward auth", "ext_authz"])
def stage(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    directory, token, grpc_port = tmp_path_factory.mktemp("alike"), secrets.token_urlsafe(32), free_port()
    (directory / "keys.json").write_text(json.dumps({"keys": [public_jwk(EC_KEY, "ES256", "fixed")]}))
    with ExitStack() as stack:
        provider, application = stack.enter_context(DevelopmentProvider()), stack.enter_context(SampleUpstream())
        keys = {
            "to": application.url,
            "allow_websockets": True,
            "pass_identity_headers": True,
            "allowed_idp_claims": {"repository": ["a/b"]},
        }
        builder = (
            GateBuilder(provider.url)
            .route(APP, prefix="/ci/", **keys, **FOREIGN, bearer_token_jwks_file=str(directory / "keys.json"))
            .route(APP, prefix="/away/", **keys, **FOREIGN, bearer_token_jwks_url=f"http://127.0.0.1:{free_port()}/jwks")
            .route(APP, to=application.url, allowed_groups=["engineering"], allow_websockets=True)
            .setting(
                groups_claim="groups",
                data_plane="envoy" if request.param == "envoy" else "embedded",
                grpc_address=f"127.0.0.1:{grpc_port}",
                grpc_insecure=True,
                ext_authz_tokens=[token],
            )
        )
        builder.setting(forward_auth_url=builder.url(REQUESTED, ""))
        gate = stack.enter_context(builder.start(tmp_path_factory.mktemp("gate")))
        yield Stage(request.param, gate, grpc_port, token, application)


@pytest.mark.parametrize("kind", KINDS)
def test_denial_is_the_same_on_every_plane(stage: Stage, kind: str) -> None:
    for name, refused in stage.refusals.items():
        status, headers = stage.ask(refused.path, *KINDS[kind], refused.line)
        # gRPC has the status in a header; a front proxy reads HTTP's alone.
        is_grpc = kind == "gRPC" and stage.plane != "forward auth"
        assert status == (200 if is_grpc else refused.status), name
        assert headers.get("www-authenticate", "") == refused.challenge, name
        assert headers.get("retry-after", "") == ("5" if refused.status == 503 else ""), name
    assert stage.application.hits == 0


def test_the_operator_finds_why_a_token_was_refused(stage: Stage) -> None:
    explained = []
    for number, (name, refused) in enumerate(stage.refusals.items()):
        path = f"{refused.path}why-{number}"
        stage.ask(path, *KINDS["script"], refused.line)
        line = stage.gate.wait_for_event("request", lambda entry, path=path: entry["path"] == path)
        assert refused.reason in line.get("token_error", ""), (name, line)
        assert bool(refused.reason) == ("token_error" in line), (name, line)
        if refused.reason:
            explained.append((line["request_id"], line["token_error"]))
    displayed_secrets = [refused.line.split(" ")[-1] for refused in stage.refusals.values() if refused.line]
    assert not [displayed for displayed in displayed_secrets if displayed in stage.gate.child.output]
    request_id, reason = explained[len(explained) // 2]
    command = ("manage.py", "explainaccess", "--request", request_id, "-config", stage.gate.config_file)

    def received() -> str:
        return run(*command).stdout

    stage.gate.child.wait_for(lambda: reason in received(), "the decision log has the reason")
