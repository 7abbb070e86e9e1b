"""A small OpenID provider on loopback whose responses can be overridden.

idp = await FakeIdP.started()
idp.bend.claims = {"iss": "https://evil.example"}     # into the next ID tokens; a value of ABSENT removes the claim
callback_url = idp.pick(authorization_url, "alice")   # the redirect after the user's sign-in at the provider
"""

import asyncio
import base64
import hashlib
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, parse_qsl, unquote_plus, urlencode, urlsplit

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from tests.support.closing import stop_accepting

ABSENT = object()
LOGOUT_EVENT = "http://schemas.openid.net/event/backchannel-logout"
DISCOVERY = "/.well-known/openid-configuration"
CLIENT_ID, CLIENT_SECRET = "gate", "client-secret"
PEOPLE: dict[str, dict[str, Any]] = {
    "alice": {"name": "Alice Adams", "email": "alice@corp.example", "email_verified": True, "groups": ["engineering"]},
    "bob": {"name": "Bob Brown", "email": "bob@corp.example", "email_verified": True, "groups": ["sales"]},
}
# Generated once, because an RSA key is slow to generate.
RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
ED_KEY = ed25519.Ed25519PrivateKey.generate()


@dataclass
class Answer:
    status: int = 200
    body: bytes = b""
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0

    @classmethod
    def json(cls, document: Any, status: int = 200) -> "Answer":
        return cls(status, json.dumps(document).encode())


@dataclass
class Overrides:
    """Deviations of this provider from correct behaviour."""

    discovery: dict[str, Any] = field(default_factory=dict)
    header: dict[str, Any] = field(default_factory=dict)
    claims: dict[str, Any] = field(default_factory=dict)
    userinfo: dict[str, Any] = field(default_factory=dict)
    signed_userinfo: dict[str, Any] | None = None  # additional claims of a signed response, instead of a JSON object
    tokens: dict[str, Any] = field(default_factory=dict)  # members of the token response
    token: Callable[[dict[str, Any], dict[str, Any]], str] | None = None  # (header, claims) -> complete ID token
    answers: dict[str, Answer | Callable[[], Answer]] = field(default_factory=dict)  # responses by path, which replace all others
    holds: dict[str, asyncio.Event] = field(default_factory=dict)  # events by path for which the response waits


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    form: dict[str, str]


class FakeIdP:
    keeps_connections = False

    def __init__(self) -> None:
        self.bend = Overrides()
        self.requests: list[Request] = []
        self.refreshed = self.reused = 0
        self.signing_key: Any = RSA_KEY
        self.algorithm = "RS256"
        self.kid = "key-1"
        self.clock: Callable[[], float] = time.time
        self.rotates = True  # each refresh token is valid once; its reuse ends the grant
        self.lifetime = 3600  # lifetime of access tokens in seconds
        self._codes: dict[str, dict[str, Any]] = {}
        self._grants: dict[str, dict[str, Any]] = {}  # by refresh token, used ones included
        self._access_tokens: dict[str, str] = {}
        self._server: asyncio.Server | None = None

    @classmethod
    async def started(cls) -> "FakeIdP":
        idp = cls()
        idp._server = await asyncio.start_server(idp._serve, "127.0.0.1", 0)
        return idp

    async def stop(self) -> None:
        assert self._server is not None
        await stop_accepting(self._server)
        await self._server.wait_closed()

    @property
    def issuer(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def count(self, path: str) -> int:
        return sum(request.path == path for request in self.requests)

    def pick(self, authorization_url: str, sub: str, **more: str) -> str:
        """Sign in as a user and return the URL of the provider's redirect. `more` are its additional parameters."""
        parameters = {name: values[0] for name, values in parse_qs(urlsplit(authorization_url).query).items()}
        code = secrets.token_urlsafe(16)
        self._codes[code] = {"sub": sub, **parameters}
        return f"{parameters['redirect_uri']}?{urlencode({'code': code, 'state': parameters['state'], 'iss': self.issuer, **more})}"

    def serve_discovery_from(self, path: str, issuer: str) -> None:
        """Serve the discovery document at another URL than the issuer's."""
        self.bend.answers[path] = lambda: Answer.json({**self._discovery(), "issuer": issuer})

    def signed_in(self, sub: str) -> dict[str, Any]:
        """Return the token response for the code of a sign-in with this nonce."""
        answer = self._tokens({"client_id": CLIENT_ID, "sub": sub, "nonce": "nonce"})
        return json.loads(answer.body)

    def id_token(self, parameters: dict[str, Any], access_token: str) -> str:
        now = self.clock()
        digest = (hashlib.sha512 if self.algorithm == "EdDSA" else hashlib.sha256)(access_token.encode()).digest()
        claims = {
            "iss": self.issuer,
            "aud": parameters["client_id"],
            "sub": parameters["sub"],
            "exp": int(now) + 600,
            "iat": int(now),
            "nonce": parameters.get("nonce", ABSENT),
            "auth_time": int(now) if "max_age" in parameters else ABSENT,  # as the standard allows: only if requested
            "at_hash": encoded(digest[: len(digest) // 2]),
            **PEOPLE[parameters["sub"]],
            **self.bend.claims,
        }
        header = {"kid": self.kid, "typ": "JWT", "alg": self.algorithm, **self.bend.header}
        claims = {name: value for name, value in claims.items() if value is not ABSENT}
        header = {name: value for name, value in header.items() if value is not ABSENT}
        if self.bend.token is not None:
            return self.bend.token(header, claims)
        return signed(header, claims, self.signing_key, self.algorithm)

    def logout_token(self, *, header: dict[str, Any] | None = None, **claims: Any) -> str:
        """Return a logout token of this provider; a claim of ABSENT is omitted."""
        now = int(self.clock())
        payload = {"iss": self.issuer, "aud": CLIENT_ID, "iat": now, "exp": now + 120, "jti": secrets.token_urlsafe(16)}
        payload |= {"events": {LOGOUT_EVENT: {}}, **claims}
        members = {"kid": self.kid, "typ": "logout+jwt", "alg": self.algorithm, **(header or {})}
        payload, members = ({name: value for name, value in each.items() if value is not ABSENT} for each in (payload, members))
        return signed(members, payload, self.signing_key, self.algorithm)

    def jwks(self) -> dict[str, Any]:
        return {"keys": [public_jwk(self.signing_key, self.algorithm, self.kid)]}

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                await self._exchange(head, reader, writer)
                if not self.keeps_connections:
                    break
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client has disconnected, or the test has ended
        finally:
            writer.close()

    async def _exchange(self, head: list[str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        method, path, _ = head[0].split(" ")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        request = Request(method, path, headers, dict(parse_qsl(body.decode())))
        self.requests.append(request)
        answer = self._answer(request)
        if (hold := self.bend.holds.get(path)) is not None:
            await hold.wait()
        await asyncio.sleep(answer.delay)
        writer.write(_http(answer, "keep-alive" if self.keeps_connections else "close"))
        await writer.drain()

    def _answer(self, request: Request) -> Answer:
        if (bent := self.bend.answers.get(request.path)) is not None:
            return bent() if callable(bent) else bent
        match request.path:
            case path if path == DISCOVERY:
                return Answer.json(self._discovery())
            case "/jwks":
                return Answer.json(self.jwks())
            case "/token":
                return self._token(request)
            case "/userinfo":
                return self._userinfo(request)
            case "/revoke":
                return self._revoke(request)
        return Answer.json({"error": "not_found"}, 404)

    def _discovery(self) -> dict[str, Any]:
        document = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            "jwks_uri": f"{self.issuer}/jwks",
            "revocation_endpoint": f"{self.issuer}/revoke",
            "end_session_endpoint": f"{self.issuer}/end",
            "id_token_signing_alg_values_supported": ["RS256", "PS256", "ES256", "EdDSA", "HS256", "none"],
            "authorization_response_iss_parameter_supported": True,
            **self.bend.discovery,
        }
        return {name: value for name, value in document.items() if value is not ABSENT}

    def _token(self, request: Request) -> Answer:
        form = request.form
        if not _is_client(request):
            return Answer.json({"error": "invalid_client"}, 401)
        if form.get("grant_type") == "refresh_token":
            return self._refresh(form.get("refresh_token", ""))
        parameters = self._codes.pop(form.get("code", ""), None)  # a code is valid once
        challenge = encoded(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
        if parameters is None or parameters["redirect_uri"] != form.get("redirect_uri") or parameters.get("code_challenge") != challenge:
            return Answer.json({"error": "invalid_grant"}, 400)
        return self._tokens(parameters)

    def _refresh(self, refresh_token: str) -> Answer:
        grant = self._grants.get(refresh_token)
        if grant is None or grant.get("is_over"):
            return Answer.json({"error": "invalid_grant"}, 400)
        if grant["refresh_token"] != refresh_token:
            self.reused += 1
            grant["is_over"] = True  # RFC 9700 4.14.2: the reuse of a token means that it was stolen
            return Answer.json({"error": "invalid_grant"}, 400)
        self.refreshed += 1
        return self._tokens({name: value for name, value in grant["asked"].items() if name != "nonce"}, grant)

    def _tokens(self, parameters: dict[str, Any], grant: dict[str, Any] | None = None) -> Answer:
        access_token = secrets.token_urlsafe(16)
        self._access_tokens[access_token] = parameters["sub"]
        if grant is None:
            grant = {"asked": parameters, "refresh_token": "refresh-" + access_token}
        elif self.rotates:
            grant["refresh_token"] = "refresh-" + access_token
        self._grants[grant["refresh_token"]] = grant
        tokens = {
            "access_token": access_token,
            "token_type": "Bearer",
            "expires_in": self.lifetime,
            "refresh_token": grant["refresh_token"],
            "id_token": self.id_token(parameters, access_token),
            **self.bend.tokens,
        }
        return Answer.json({name: value for name, value in tokens.items() if value is not ABSENT})

    def give_access(self, access_token: str, subject: str) -> None:
        """Return an access token of this user for another client, without a sign-in."""
        self._access_tokens[access_token] = subject

    def _revoke(self, request: Request) -> Answer:
        token = request.form.get("token", "")
        self._access_tokens.pop(token, None)
        if (grant := self._grants.get(token)) is not None:
            grant["is_over"] = True
        return Answer()

    def _userinfo(self, request: Request) -> Answer:
        sub = self._access_tokens.get(request.headers.get("authorization", "").removeprefix("Bearer "))
        if sub is None:
            return Answer.json({"error": "invalid_token"}, 401)
        claims = {"sub": sub, **PEOPLE[sub], **self.bend.userinfo}
        if self.bend.signed_userinfo is not None:
            claims |= {"iss": self.issuer, "aud": CLIENT_ID, **self.bend.signed_userinfo}
        claims = {name: value for name, value in claims.items() if value is not ABSENT}
        if self.bend.signed_userinfo is None:
            return Answer.json(claims)
        token = signed({"kid": self.kid, "alg": self.algorithm}, claims, self.signing_key, self.algorithm)
        return Answer(200, token.encode(), "application/jwt; charset=utf-8")


def signed(header: dict[str, Any], claims: dict[str, Any], key: Any, algorithm: str) -> str:
    """Return a token with exactly this header and these claims, signed with `algorithm` regardless of the header."""
    signing_input = f"{encoded(json.dumps(header).encode())}.{encoded(json.dumps(claims).encode())}".encode()
    implementation = jwt.get_algorithm_by_name(algorithm)
    return f"{signing_input.decode()}.{encoded(implementation.sign(signing_input, key))}"


def public_jwk(key: Any, algorithm: str, kid: str | None) -> dict[str, Any]:
    jwk = json.loads(jwt.get_algorithm_by_name(algorithm).to_jwk(key.public_key()))
    jwk.pop("key_ops", None)
    return {**jwk, "use": "sig", **({"kid": kid} if kid is not None else {})}


def encoded(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def _is_client(request: Request) -> bool:
    scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
    if scheme == "Basic":
        client_id, _, secret = base64.b64decode(credentials).decode().partition(":")
        return (unquote_plus(client_id), unquote_plus(secret)) == (CLIENT_ID, CLIENT_SECRET)
    return (request.form.get("client_id"), request.form.get("client_secret")) == (CLIENT_ID, CLIENT_SECRET)


def _http(answer: Answer, connection: str) -> bytes:
    headers = {
        "Content-Type": answer.content_type,
        "Content-Length": str(len(answer.body)),
        "Connection": connection,
        "Set-Cookie": "tracker=1",
        **answer.headers,
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {answer.status} Status\r\n{head}\r\n".encode() + answer.body


@pytest.fixture
async def idp() -> AsyncIterator[FakeIdP]:
    provider = await FakeIdP.started()
    yield provider
    await provider.stop()
