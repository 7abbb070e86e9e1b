"""A cloud's metadata server and token endpoint on loopback, as documented by the vendor.

async with Cloud() as cloud:
    settings = {"cloud_serverless_metadata_url": cloud.url}                       # the account of the machine
    settings = {"cloud_serverless_authentication_service_account_file": ...}      # with cloud.account_json() in it
    cloud.bend = {"aud": "https://other"}; cloud.answer = (500, b"")              # incorrect behaviour
"""

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any

import jwt
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests.support.fake_api import Answer, FakeApi, Request
from tests.support.fake_idp import OTHER_RSA_KEY, RSA_KEY

ACCOUNT = "gate@project.iam.gserviceaccount.com"
IDENTITY_PATH = "/computeMetadata/v1/instance/service-accounts/default/identity"
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


def account_json(token_uri: str = "https://oauth2.googleapis.com/token") -> bytes:
    pem = RSA_KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    names = {"project_id": "project", "private_key_id": "key-1", "private_key": pem, "client_email": ACCOUNT, "client_id": "1"}
    return json.dumps({"type": "service_account", **names, "token_uri": token_uri}).encode()


class Cloud(FakeApi):
    """The server. `asked` contains the audiences of requested tokens; responses wait until `gate` is set."""

    def __init__(self, clock: Callable[[], float] = time.time):
        super().__init__()
        self.requested_audiences: list[str] = []
        self.tokens: list[str] = []
        self.bend: dict[str, Any] = {}
        self.answer: tuple[int, bytes] | None = None
        self.flavor = "Google"
        self.is_signed = True
        self.lifetime = 3600
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self._clock = clock

    def account_json(self) -> bytes:
        return account_json(f"{self.url}/token")

    async def handle(self, request: Request) -> Answer:
        status, content = await self._answered(request)
        return Answer(status, content, {"Metadata-Flavor": self.flavor})

    async def _answered(self, request: Request) -> tuple[int, bytes]:
        if request.path == IDENTITY_PATH:
            if request.headers.get("metadata-flavor") != "Google" or request.query.get("format") != "full":
                return 403, b"Missing Metadata-Flavor:Google header."
            audience, as_json = request.query["audience"], False
        elif request.path == "/token" and request.form.get("grant_type") == JWT_BEARER:
            options = {"require": ["iss", "aud", "exp", "iat"]}
            claims = jwt.decode(request.form["assertion"], RSA_KEY.public_key(), ["RS256"], audience=f"{self.url}/token", options=options)
            if claims["iss"] != ACCOUNT or claims["exp"] - claims["iat"] > 3600:
                return 400, b'{"error": "invalid_grant"}'
            audience, as_json = claims["target_audience"], True
        else:
            return 404, b""
        self.requested_audiences.append(audience)
        await self.may_answer.wait()
        if self.answer is not None:
            return self.answer
        now = int(self._clock())
        claims = {"iss": "https://accounts.google.com", "aud": audience, "iat": now, "exp": now + self.lifetime, "email": ACCOUNT}
        token = jwt.encode({**claims, "n": len(self.requested_audiences), **self.bend}, OTHER_RSA_KEY, "RS256")
        if not self.is_signed:
            token = token[: token.rindex(".") + 1]
        self.tokens.append(token)
        return 200, json.dumps({"id_token": token}).encode() if as_json else token.encode()
