"""gate for `gate tunnel` and `gate token`: discovery, an authorization server and tunnels that echo, with answers that a test changes."""

import base64
import hashlib
import itertools
import json
import secrets
import threading
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from foundation.values import parse_url
from gateproject.tunnel.oauth_client import GateAddress
from tests.support.tunnel_server import ServerConnection, TunnelServer

TUNNEL = parse_url("tcp+https://db.localhost:22")
RESOURCE_PATH, SERVER_PATH = "/.well-known/gate/oauth-protected-resource", "/.well-known/oauth-authorization-server"


class FakeGate(TunnelServer):
    """`changed` replaces members of the JSON at a path; `failing` maps a path or grant type to the error that it returns."""

    def __init__(self, directory: Path):
        super().__init__(directory, self._script, "gate.localhost", "auth.localhost")
        self.gate = GateAddress(self.url, self.context)
        self.issuer = f"https://auth.localhost:{self.url.port}"
        self.changed: dict[str, dict[str, Any]] = {}
        self.failing: dict[str, str] = {}
        self.expires_in = 3600
        self.forms: list[dict[str, str]] = []
        self._lock, self._counter = threading.Lock(), itertools.count(1)
        self._codes: dict[str, dict[str, str]] = {}
        self.valid_tokens: set[str] = set()
        self._refresh = ""
        self.device = ""

    def authorize(self, location: str, **changed: str) -> str:
        """Return the redirect to the client after the user's decision at an authorization URL."""
        query = dict(parse_qsl(urlsplit(location).query))
        assert (query["response_type"], query["client_id"], query["code_challenge_method"]) == ("code", "gate", "S256")
        code = secrets.token_urlsafe(8)
        self._codes[code] = query
        return f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state'], 'iss': self.issuer, **changed})}"

    def end_session(self) -> None:
        with self._lock:
            self.valid_tokens.clear()
            self._refresh = ""

    def count(self, grant_type: str) -> int:
        return sum(form.get("grant_type") == grant_type for form in self.forms)

    def _script(self, spoken: ServerConnection) -> None:
        line, *lines = spoken.head.decode().split("\r\n")
        method, target, _ = line.split(" ")
        headers = {name.lower(): value for name, _, value in (each.partition(": ") for each in lines)}
        if method == "CONNECT":
            self._tunnel(spoken, headers)
            return
        body = b""
        while len(body) < int(headers.get("content-length", "0")):
            body += spoken.receive()
        with self._lock:
            status, document = self._answer(urlsplit(target).path, target, headers["host"], dict(parse_qsl(body.decode())))
        content = json.dumps(document).encode()
        spoken.send(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (status, len(content), content))

    def _tunnel(self, spoken: ServerConnection, headers: dict[str, str]) -> None:
        if headers.get("authorization", "").removeprefix("Bearer ") not in self.valid_tokens | {"Gate good"}:
            spoken.send(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 3\r\nConnection: close\r\n\r\nwho")
            return
        spoken.send(b"HTTP/1.1 200 OK\r\n\r\n")
        received = b""
        while data := spoken.receive():
            received += data
        spoken.send(received)

    def _answer(self, path: str, target: str, host: str, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        if form:
            self.forms.append(form)
        kind = form.get("grant_type", path)
        if kind in self.failing:
            error = self.failing[kind]
            if error == "no JSON":
                return 502, {}
            return (404 if error == "missing" else 503 if error == "temporarily_unavailable" else 400), {
                "error": error,
                **self.changed.get(kind, {}),
            }
        answers = {
            RESOURCE_PATH: self._resource,
            SERVER_PATH: self._metadata,
            "/token": self._token,
            "/device": self._start_device,
            "/revoke": self._revoke,
        }
        status, document = answers[path](target, host, form)
        return status, {**document, **self.changed.get(path, {})}

    def _resource(self, target: str, host: str, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        ports = parse_qs(urlsplit(target).query).get("port")
        name = host.partition(":")[0]
        return 200, {"resource": f"tcp+https://{name}:{ports[0]}" if ports else f"https://{host}", "authorization_servers": [self.issuer]}

    def _metadata(self, target: str, host: str, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        assert host == urlsplit(self.issuer).netloc
        endpoints = {"authorization": "authorize?a=b", "token": "token", "device_authorization": "device", "revocation": "revoke"}
        named = {f"{name}_endpoint": f"{self.issuer}/{path}" for name, path in endpoints.items()}
        return 200, {"issuer": self.issuer, "code_challenge_methods_supported": ["S256"], **named}

    def _token(self, target: str, host: str, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        assert form["client_id"] == "gate"
        if form["grant_type"] == "authorization_code":
            requested = self._codes.pop(form["code"])
            challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).decode().rstrip("=")
            assert (requested["code_challenge"], requested["redirect_uri"]) == (challenge, form["redirect_uri"])
            assert requested["resource"] == form["resource"]
        elif form["grant_type"] == "refresh_token":
            if form["refresh_token"] != self._refresh:
                self.valid_tokens.clear()
                self._refresh = ""
                return 400, {"error": "invalid_grant"}
        elif form["device_code"] != self.device:
            return 400, {"error": "invalid_grant"}
        number = next(self._counter)
        self._refresh = f"refresh-{number}"
        self.valid_tokens.add(f"access-{number}")
        return 200, {
            "access_token": f"access-{number}",
            "token_type": "Bearer",
            "expires_in": self.expires_in,
            "refresh_token": self._refresh,
        }

    def _start_device(self, target: str, host: str, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        self.device = secrets.token_urlsafe(8)
        page = f"{self.issuer}/device"
        return 200, {"device_code": self.device, "user_code": "WDJB-MJHT", "verification_uri": page, "expires_in": 600, "interval": 1}

    def _revoke(self, target: str, host: str, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        if form["token"] == self._refresh:
            self.valid_tokens.clear()
            self._refresh = ""
        return 200, {}
