"""Required members of a service account's key file; errors contain nothing of the file."""

import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from config.fields.cloud_service_account import service_account
from tests.support.cloud import ACCOUNT, account_json
from tests.support.fake_idp import EC_KEY

EC_PEM = EC_KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def test_a_key_file_of_the_vendor_is_read() -> None:
    account = service_account(account_json())
    assert (account.email, account.key_id, str(account.token_url)) == (ACCOUNT, "key-1", "https://oauth2.googleapis.com/token")
    assert "PRIVATE" not in repr(account)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"type": "authorized_user"}, "key file"),
        ({"client_email": ""}, "lacks client_email"),
        ({"private_key_id": 5}, "lacks private_key_id"),
        ({"private_key": None}, "lacks private_key"),
        ({"private_key": "-----BEGIN PRIVATE KEY-----\nsecret\n"}, "not valid PEM"),
        ({"private_key": EC_PEM}, "RSA"),
        ({"token_uri": "http://oauth2.example.com/token"}, "must be https"),
        ({"token_uri": "oauth2"}, "needs a scheme"),
    ],
)
def test_unusable_value_is_refused_without_disclosing_it(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as refused:
        service_account(json.dumps({**json.loads(account_json()), **change}).encode())
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("content", [b"", b"[]", b"secret", b"\xff", b"[" * 100_000])
def test_invalid_key_file_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match="key file"):
        service_account(content)
