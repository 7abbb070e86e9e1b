"""B55: can a client with a key be impersonated: without it, with another key, with an assertion that was used or is for another server?"""

import hmac
import json
import secrets
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any
from urllib.parse import urlencode

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.attack.identity_agents import CALLBACK, CLIENT, FORM, KEY_CLIENT, OTHER_CLIENT, VERIFIER, AgentStage, agent_stage
from tests.attack.identity_attack import Attempt, identity_attack
from tests.attack.identity_browser import Browser, Connections
from tests.attack.identity_stage import Stage
from tests.attack.run import REFUSED, Outcome, expect
from tests.support.client_keys import CLIENT_KEY, OTHER_KEY, public_jwk, sign
from tests.support.gate import AUTHENTICATE_HOST

ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
CONCURRENT = 6
Claims = dict[str, Any]


@identity_attack("B55", "OAuth: assertions of clients", sample=20)
def assertions(_: Stage) -> Iterator[Attempt]:
    for label, form in _FORMS.items():
        yield label, partial(_refused, form)
    for label, make in _ASSERTIONS.items():
        yield f"an assertion {label}", partial(_refused, make=make)
    yield "an assertion twice", _replayed
    yield "an assertion from several connections", _concurrent
    yield "an assertion of another client", _for_another_client


def _claims(stage: AgentStage, **changed: Any) -> Claims:
    claims = {
        "iss": KEY_CLIENT,
        "sub": KEY_CLIENT,
        "aud": stage.authenticate,
        "exp": time.time() + 60,
        "jti": secrets.token_hex(8),
        **changed,
    }
    return {name: value for name, value in claims.items() if value is not None}


def _encode(part: object) -> bytes:
    return urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=")


def _unsigned(stage: AgentStage, algorithm: str) -> str:
    return b".".join((_encode({"alg": algorithm}), _encode(_claims(stage)), b"")).decode()


def _with_public_key_as_secret(stage: AgentStage, key: bytes) -> str:
    signed = b".".join((_encode({"alg": "HS256", "kid": "k1"}), _encode(_claims(stage))))
    return b".".join((signed, urlsafe_b64encode(hmac.digest(key, signed, "sha256")).rstrip(b"="))).decode()


def _by_another_key(stage: AgentStage, **header: Any) -> str:
    return sign(_claims(stage), OTHER_KEY, **header)


def _with(stage: AgentStage, **changed: Any) -> str:
    return sign(_claims(stage, **changed))


_PEM = CLIENT_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
_FORMS: dict[str, dict[str, str]] = {
    "no proof": {},
    "a secret": {"client_secret": "a-client-secret-of-more-than-32-characters"},
    "the public key as a secret": {"client_secret": _PEM.decode()},
    "an empty assertion": {"client_assertion": "", "client_assertion_type": ASSERTION_TYPE},
    "the type without an assertion": {"client_assertion_type": ASSERTION_TYPE},
}
_ASSERTIONS: dict[str, Callable[[AgentStage], str]] = {
    **{f"with the algorithm {name!r}": partial(_unsigned, algorithm=name) for name in ("none", "None", "NONE", "", "HS256", "ES256")},
    "with the public key as the secret of an HMAC": partial(_with_public_key_as_secret, key=_PEM),
    "with the key set as the secret of an HMAC": partial(_with_public_key_as_secret, key=json.dumps(public_jwk()).encode()),
    "with no secret of an HMAC": partial(_with_public_key_as_secret, key=b""),
    "of another key": _by_another_key,
    "of another key in its header": partial(_by_another_key, jwk=public_jwk(OTHER_KEY)),
    "of another key at a URL": partial(_by_another_key, jku="https://evil.example/keys"),
    "of another key, with a path as its id": partial(_by_another_key, kid="../../dev/null"),
    "of another key, without an id": partial(_by_another_key, kid=None),
    "for another server": partial(_with, aud="https://evil.example"),
    "for this and another server": lambda stage: _with(stage, aud=[stage.authenticate, "https://evil.example"]),
    "for no server": partial(_with, aud=None),
    "of another issuer": partial(_with, iss=CLIENT),
    "about another client": partial(_with, sub=CLIENT),
    "that has expired": lambda stage: _with(stage, exp=time.time() - 120),
    "without an expiry": partial(_with, exp=None),
    "that is valid for a day": lambda stage: _with(stage, exp=time.time() + 86400),
    "without an id": partial(_with, jti=None),
}


def _form(stage: AgentStage, code: str, **proof: str) -> dict[str, str]:
    form = {"grant_type": "authorization_code", "client_id": KEY_CLIENT, "redirect_uri": CALLBACK, "code_verifier": VERIFIER}
    return {**form, "code": code, "resource": stage.resource(), **proof}


def _proof(assertion: str) -> dict[str, str]:
    return {"client_assertion": assertion, "client_assertion_type": ASSERTION_TYPE}


def _code(stage: AgentStage) -> str:
    return stage.code(stage.signed_in(), client_id=KEY_CLIENT)


def _refused(form: dict[str, str] | None = None, make: Callable[[AgentStage], str] | None = None) -> Outcome:
    stage = agent_stage()
    code, proof = _code(stage), _proof(make(stage)) if make is not None else form or {}
    for changed in ({}, {"client_id": ""}) if make is not None else ({},):
        status, body = stage.post("token", **{**_form(stage, code, **proof), **changed})
        expect((status, body.get("error")) == (401, "invalid_client"), f"answered with {status}: {body}")
    _expect_redeemed(stage, code)
    return REFUSED


def _expect_redeemed(stage: AgentStage, code: str) -> dict[str, Any]:
    status, body = stage.post("token", **_form(stage, code, **_proof(_with(stage))))
    expect(status == 200, f"the attempt cost the client its code: {body}")
    return body


def _replayed() -> Outcome:
    stage = agent_stage()
    proof = _proof(_with(stage))
    status, tokens = stage.post("token", **_form(stage, _code(stage), **proof))
    expect(status == 200, f"the assertion was refused: {tokens}")
    for path, form in (
        ("token", _form(stage, _code(stage))),
        ("token", {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}),
        ("revoke", {"token": tokens["access_token"]}),
    ):
        status, body = stage.post(path, **form, **proof)
        expect((status, body.get("error")) == (401, "invalid_client"), f"answered with {status}: {body}")
    return REFUSED


def _concurrent() -> Outcome:
    stage = agent_stage()
    proof = _proof(_with(stage))

    def send(code: str) -> int:
        connections = Connections(stage.gate.port, stage.tls)
        try:
            url = stage.url(AUTHENTICATE_HOST, "/.gate/oauth/token")
            return Browser(connections).open(url, method="POST", headers=FORM, body=_body(stage, code, proof)).status
        finally:
            connections.close()

    codes = [_code(stage) for _ in range(CONCURRENT)]
    with ThreadPoolExecutor(CONCURRENT) as pool:
        statuses = sorted(pool.map(send, codes))
    expect(statuses == [200] + [401] * (CONCURRENT - 1), f"answered with {statuses}")
    return REFUSED


def _body(stage: AgentStage, code: str, proof: dict[str, str]) -> str:
    return urlencode(_form(stage, code, **proof))


def _for_another_client() -> Outcome:
    stage = agent_stage()
    code = stage.code(stage.signed_in())
    for client in (CLIENT, OTHER_CLIENT, KEY_CLIENT):
        status, body = stage.post("token", **{**_form(stage, code, **_proof(_with(stage))), "client_id": client})
        expect(status in (400, 401) and "access_token" not in body, f"{client}: answered with {status}: {body}")
    expect(stage.redeem(code)[0] == 200, "the attempt cost the client its code")
    return REFUSED
