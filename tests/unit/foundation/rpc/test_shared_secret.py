"""Tokens and proofs are valid only with the secret, for one method, for a short time (class B39)."""

import base64
import hashlib
import hmac
import json

import jwt
import pytest

from foundation.crypto.sealing import Sealer
from foundation.rpc.shared_secret import LIFETIME, PROOF, TOKEN, AuthenticationFailed, SharedSecret
from tests.support.clock import NOW, Clock

METHOD = "/databroker.DataBrokerService/Get"
KEY, OTHER_KEY = bytes(range(32)), bytes(range(1, 33))


@pytest.fixture
def secret(clock: Clock) -> SharedSecret:
    return SharedSecret([KEY], clock)


def metadata(token: str) -> list[tuple[str, str]]:
    return [("user-agent", "x"), (TOKEN, token)]


def test_both_sides_that_know_the_secret_prove_it(secret, clock):
    token = secret.token(METHOD)
    proof = SharedSecret([KEY], clock).verify_token(METHOD, metadata(token))
    secret.verify_proof(METHOD, token, [(PROOF, proof)])


def test_no_two_calls_have_the_same_token(secret):
    assert len({secret.token(METHOD) for _ in range(100)}) == 100


def test_a_token_is_for_its_method_only(secret):
    token = secret.token(METHOD)
    for other in ("/databroker.DataBrokerService/Set", METHOD.lower(), METHOD + "/", "", METHOD[1:]):
        with pytest.raises(AuthenticationFailed):
            secret.verify_token(other, metadata(token))


def test_token_is_valid_for_minutes_only(secret, clock):
    token = secret.token(METHOD)
    clock.now = NOW + LIFETIME - 1
    secret.verify_token(METHOD, metadata(token))
    clock.now = NOW + LIFETIME
    with pytest.raises(AuthenticationFailed):
        secret.verify_token(METHOD, metadata(token))


def test_no_token_is_valid_for_five_minutes_with_any_clock(secret, clock):
    clock.now = NOW + 300 - LIFETIME
    token = secret.token(METHOD)
    clock.now = NOW
    with pytest.raises(AuthenticationFailed):
        secret.verify_token(METHOD, metadata(token))


def test_every_changed_character_is_noticed(secret):
    token = secret.token(METHOD)
    for at in range(len(token)):
        changed = token[:at] + ("A" if token[at] != "A" else "B") + token[at + 1 :]
        with pytest.raises(AuthenticationFailed):
            secret.verify_token(METHOD, metadata(changed))


def _jwt(header: dict[str, str], key: bytes) -> str:
    def part(value: bytes) -> str:
        return base64.urlsafe_b64encode(value).rstrip(b"=").decode()

    signed_part = f"{part(json.dumps(header).encode())}.{part(json.dumps({'exp': NOW + 60, 'aud': METHOD}).encode())}"
    mac = hmac.digest(key, signed_part.encode(), hashlib.sha256) if key else b""
    return f"{signed_part}.{part(mac)}"


@pytest.mark.parametrize(
    "token",
    [
        pytest.param("", id="empty"),
        pytest.param("1..", id="no parts"),
        pytest.param(f"1.{int(NOW) + 60}.{'A' * 22}.{'A' * 43}", id="no such mac"),
        pytest.param(f"1.{'9' * 5000}.{'A' * 22}.{'A' * 43}", id="a very long number"),
        pytest.param(f"1.{int(NOW) + 60}.{'A' * 22}.{'A' * 43}\n", id="a line end behind it"),
        pytest.param(f"1.١٢٣.{'A' * 22}.{'A' * 43}", id="other digits"),
        pytest.param(_jwt({"alg": "none"}, b""), id="a JWT with alg none"),
        pytest.param(_jwt({"alg": "HS256"}, KEY), id="a JWT under the raw secret, as the reference's"),
        pytest.param(_jwt({"alg": "HS512"}, KEY), id="a JWT with another alg"),
        pytest.param(jwt.encode({"exp": NOW + 60}, KEY, algorithm="HS256"), id="a library's JWT under the raw secret"),
        pytest.param(Sealer([KEY], "hand-over").seal({"id": "x"}, audience=METHOD, expires_at=NOW + 60), id="a hand-over token"),
        pytest.param(
            Sealer([KEY], "grpc call").seal({"id": "x"}, audience=METHOD, expires_at=NOW + 60), id="sealed under the call's label"
        ),
    ],
)
def test_malformed_call_token_is_none(secret, token):
    with pytest.raises(AuthenticationFailed):
        secret.verify_token(METHOD, metadata(token))


@pytest.mark.parametrize("sent", [None, [], [("authorization", "Bearer x")]], ids=["none", "empty", "another header"])
def test_a_call_without_a_token_is_refused(secret, sent):
    with pytest.raises(AuthenticationFailed):
        secret.verify_token(METHOD, sent)


def test_of_two_tokens_none_counts(secret):
    with pytest.raises(AuthenticationFailed):
        secret.verify_token(METHOD, [(TOKEN, secret.token(METHOD)), (TOKEN, secret.token(METHOD))])


def test_another_secret_is_another_world(secret, clock):
    other = SharedSecret([OTHER_KEY], clock)
    with pytest.raises(AuthenticationFailed):
        secret.verify_token(METHOD, metadata(other.token(METHOD)))
    token = secret.token(METHOD)
    foreign = SharedSecret([OTHER_KEY, KEY], clock)
    assert foreign.verify_token(METHOD, metadata(token))  # a secret that is being replaced
    with pytest.raises(AuthenticationFailed):
        other.verify_proof(METHOD, token, [(PROOF, secret.verify_token(METHOD, metadata(token)))])


def test_a_proof_is_for_one_call_and_no_token(secret):
    token, other = secret.token(METHOD), secret.token(METHOD)
    proof = secret.verify_token(METHOD, metadata(token))
    for invalid in (
        [(PROOF, secret.verify_token(METHOD, metadata(other)))],
        [(PROOF, token)],
        [(PROOF, token.rpartition(".")[2])],
        [],
        None,
    ):
        with pytest.raises(AuthenticationFailed):
            secret.verify_proof(METHOD, token, invalid)
    with pytest.raises(AuthenticationFailed):
        secret.verify_proof("/databroker.DataBrokerService/Set", token, [(PROOF, proof)])
    with pytest.raises(AuthenticationFailed):
        secret.verify_token(METHOD, metadata(proof))


def test_secrets_can_be_replaced_one_process_after_the_other(clock):
    old, new = SharedSecret([KEY], clock), SharedSecret([KEY], clock)
    new.replace([OTHER_KEY, KEY])
    token = old.token(METHOD)
    old.verify_proof(METHOD, token, [(PROOF, new.verify_token(METHOD, metadata(token)))])
    old.replace([KEY, OTHER_KEY])
    token = new.token(METHOD)
    new.verify_proof(METHOD, token, [(PROOF, old.verify_token(METHOD, metadata(token)))])


def test_errors_never_hold_the_token(secret):
    token = secret.token(METHOD)
    with pytest.raises(AuthenticationFailed) as error:
        secret.verify_token("/x/Y", metadata(token))
    assert token not in str(error.value)
