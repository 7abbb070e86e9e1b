"""Assertions of clients: which are accepted, and that each is used once."""

import hmac
import json
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any

import jwt
import pytest
from authlib.oauth2.rfc6749 import InvalidClientError
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from structlog.testing import capture_logs

from authenticate.oauth.authorization_server import TemporarilyUnavailableError
from authenticate.oauth.client_assertions import ASSERTION_TYPE, ClientAssertions, named_client_id
from authenticate.oauth.client_documents import ClientDocuments
from authenticate.oauth.oauth_client import ClientKeys, OAuthClient, Registration
from databroker.store.memory import MemoryStore
from tests.support.client_keys import CLIENT_KEY, OTHER_KEY, public_jwk, sign
from tests.support.options import make_options

ISSUER, CLIENT = "https://authenticate.example.com", "build-agent"
NOW = 1_900_000_000.0


def client(**changes: Any) -> OAuthClient:
    keys = ClientKeys((public_jwk(),))
    return OAuthClient(
        **{"client_id": CLIENT, "name": "x", "redirect_uris": (), "registration": Registration.CONFIGURED, "keys": keys, **changes}
    )


def payload(**changes: Any) -> dict[str, Any]:
    claims = {"iss": CLIENT, "sub": CLIENT, "aud": ISSUER, "exp": NOW + 60, "jti": "1", **changes}
    return {name: value for name, value in claims.items() if value is not None}


def params(assertion: str, **changes: str) -> dict[str, str]:
    return {"client_assertion_type": ASSERTION_TYPE, "client_assertion": assertion, **changes}


@pytest.fixture
def assertions(tmp_path: Path) -> ClientAssertions:
    documents = ClientDocuments(make_options(tmp_path), lambda: NOW)
    return ClientAssertions(ISSUER, documents, MemoryStore(lambda: NOW), lambda: NOW)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"aud": f"{ISSUER}/.gate/oauth/token"},
        {"aud": [ISSUER, f"{ISSUER}/.gate/oauth/token"]},
        {"exp": NOW + 600},
        {"exp": NOW - 30},  # clocks differ
        {"iat": NOW, "nbf": NOW},
    ],
)
async def test_accepted_assertions(assertions: ClientAssertions, changes: dict[str, Any]) -> None:
    proven = await assertions.authenticate(client(), params(sign(payload(**changes))))
    assert proven.is_proven
    assert [proven.check_endpoint_auth_method(method, "token") for method in ("private_key_jwt", "none", "client_secret_post")] == [
        True,
        False,
        False,
    ]


def forged_with_public_key() -> str:
    """Return an assertion with an HMAC whose key is the public key."""
    head, claims = (urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in ({"alg": "HS256", "kid": "k1"}, payload()))
    pem = CLIENT_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    mac = hmac.digest(pem, head + b"." + claims, "sha256")
    return b".".join((head, claims, urlsafe_b64encode(mac).rstrip(b"="))).decode()


UNSIGNED = jwt.encode(payload(), None, algorithm="none")
REFUSED = {
    "unsigned": UNSIGNED,
    "unsigned, with a signature": f"{UNSIGNED}{sign(payload()).rpartition('.')[2]}",
    "HMAC with the public key": forged_with_public_key(),
    "another key": sign(payload(), OTHER_KEY),
    "another key, without its id": sign(payload(), OTHER_KEY, kid=None),
    "unknown key id": sign(payload(), kid="k2"),
    "key in the header": sign(payload(), OTHER_KEY, jwk=public_jwk(OTHER_KEY)),
    "critical header": sign(payload(), crit=["exp"]),
    "another type": sign(payload(), typ="at+jwt"),
    "another issuer": sign(payload(iss="other")),
    "another subject": sign(payload(sub="other")),
    "no subject": sign(payload(sub=None)),
    "another audience": sign(payload(aud="https://evil.example")),
    "another audience too": sign(payload(aud=[ISSUER, "https://evil.example"])),
    "audience with a slash": sign(payload(aud=f"{ISSUER}/")),
    "no audience": sign(payload(aud=None)),
    "empty audience": sign(payload(aud=[])),
    "audience that is an object": sign(payload(aud={ISSUER: 1})),
    "audience in a list": sign(payload(aud=[[ISSUER]])),
    "expired": sign(payload(exp=NOW - 61)),
    "no expiry": sign(payload(exp=None)),
    "expiry as text": sign(payload(exp=str(int(NOW + 60)))),
    "valid for too long": sign(payload(exp=NOW + 700)),
    "not valid yet": sign(payload(nbf=NOW + 120)),
    "issued in the future": sign(payload(iat=NOW + 120)),
    "no id": sign(payload(jti=None)),
    "id that is no text": sign(payload(jti=1)),
    "changed": sign(payload()).replace(".", ".e30", 1),
    "empty": "",
    "no token": "x.y.z",
    "too large": sign(payload(padding="x" * 70_000)),
}


@pytest.mark.parametrize("assertion", REFUSED.values(), ids=REFUSED.keys())
async def test_refused_assertions(assertions: ClientAssertions, assertion: str) -> None:
    with pytest.raises(InvalidClientError), capture_logs() as logs:
        await assertions.authenticate(client(), params(assertion))
    assert [(entry["event"], entry["client_id"]) for entry in logs] == [("client assertion refused", CLIENT)]
    assert assertion[:60] not in str(logs) or not assertion


@pytest.mark.parametrize(
    ("tried", "changes"),
    [
        (client(keys=None), {}),
        (client(), {"client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:saml2-bearer"}),
        (client(client_id="other"), {}),
        (client(keys=ClientKeys((public_jwk(OTHER_KEY),))), {}),
        (client(keys=ClientKeys(({**public_jwk(), "use": "enc"},))), {}),
        (client(keys=ClientKeys(({"kty": "oct", "k": "AAAA", "kid": "k1"},))), {}),
    ],
)
async def test_client_that_an_assertion_does_not_prove(assertions: ClientAssertions, tried: OAuthClient, changes: dict[str, str]) -> None:
    with pytest.raises(InvalidClientError):
        await assertions.authenticate(tried, params(sign(payload()), **changes))


async def test_assertion_is_used_once_by_one_client(assertions: ClientAssertions) -> None:
    assertion = sign(payload())
    await assertions.authenticate(client(), params(assertion))
    with pytest.raises(InvalidClientError):
        await assertions.authenticate(client(), params(assertion))
    with pytest.raises(InvalidClientError):  # another assertion with the same id
        await assertions.authenticate(client(), params(sign(payload(exp=NOW + 90))))
    other = {"iss": "other", "sub": "other"}
    assert (await assertions.authenticate(client(client_id="other"), params(sign(payload(**other))))).is_proven


async def test_without_an_assertion_nothing_is_proven(assertions: ClientAssertions) -> None:
    unproven = await assertions.authenticate(client(), {})
    assert not unproven.is_proven
    for method in ("none", "client_secret_basic", "client_secret_post", "private_key_jwt"):
        assert not unproven.check_endpoint_auth_method(method, "token")


async def test_keys_that_are_unavailable(assertions: ClientAssertions, monkeypatch: pytest.MonkeyPatch) -> None:
    published = "https://client.example.com/client.json"
    named = {"iss": published, "sub": published}
    tried = client(client_id=published, registration=Registration.METADATA_DOCUMENT, keys=ClientKeys())
    monkeypatch.setattr("authenticate.provider.address_scope._is_local_address", lambda address: True)
    with pytest.raises(TemporarilyUnavailableError):
        await assertions.authenticate(tried, params(sign(payload(**named))))


@pytest.mark.parametrize(
    ("published", "is_proven"),
    [
        ([[public_jwk(OTHER_KEY)], [public_jwk()]], True),  # rotated
        ([[public_jwk(OTHER_KEY)], [public_jwk(OTHER_KEY)]], False),
        ([[public_jwk(OTHER_KEY)], [{**public_jwk(OTHER_KEY), "kid": "k2"}]], False),
    ],
)
async def test_unknown_key_is_looked_up_once_more(
    assertions: ClientAssertions, monkeypatch: pytest.MonkeyPatch, published: list[list[dict[str, Any]]], is_proven: bool
) -> None:
    fetches: list[bool] = []

    async def keys_for(_: OAuthClient, *, refetches: bool = False) -> tuple[dict[str, Any], ...]:
        fetches.append(refetches)
        return tuple(published[len(fetches) - 1])

    monkeypatch.setattr(assertions._documents, "keys_for", keys_for)
    if is_proven:
        assert (await assertions.authenticate(client(), params(sign(payload())))).is_proven
    else:
        with pytest.raises(InvalidClientError):
            await assertions.authenticate(client(), params(sign(payload())))
    assert fetches == [False, True]


def test_client_id_in_an_assertion() -> None:
    assert named_client_id({"client_assertion": sign(payload())}) == CLIENT
    assert named_client_id({"client_assertion": "x"}) == named_client_id({}) == ""
