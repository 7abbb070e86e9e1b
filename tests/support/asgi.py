"""ASGI client for tests: sends one request as messages and returns the response."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

from authorize.policy.policy_request import parse_request
from proxy.incoming_request import IncomingRequest

NAVIGATION = {"accept": "text/html,*/*;q=0.8", "sec-fetch-mode": "navigate"}
SCRIPT = {"accept": "*/*", "sec-fetch-mode": "cors"}
CURL = {"accept": "*/*"}


@dataclass
class Answer:
    """The response from the `send` messages. `ended` is True after the last body message."""

    status: int = 0
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytes = b""
    ended: bool = False
    starts: int = 0

    async def send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], list(message["headers"])
            self.starts += 1
        elif message["type"] == "http.response.body":
            self.body += message.get("body", b"")
            self.ended = not message.get("more_body", False)
        else:
            raise ValueError(message["type"])

    def values(self, name: str) -> list[str]:
        return [value.decode("latin-1") for key, value in self.headers if key.lower() == name.encode()]

    def header(self, name: str) -> str:
        (value,) = self.values(name)
        return value

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def http_scope(url: str, *, method: str = "GET", headers: dict[str, str] | None = None, client: str = "127.0.0.1") -> dict[str, Any]:
    """Build the scope of a request for `url` (`https://host/path?query`); header names in any case."""
    scheme, _, rest = url.partition("://")
    host, slash, target = rest.partition("/")
    path, _, query = f"{slash}{target}".partition("?")
    pairs = [("host", host), *(headers or {}).items()]
    return {
        "type": "http",
        "method": method,
        "scheme": scheme,
        "raw_path": path.encode(),
        "path": path,
        "query_string": query.encode(),
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in pairs],
        "client": [client, 50000],
    }


def incoming_from(url: str, *, default_ports: frozenset[int] = frozenset({443}), is_trusted: bool = False, **scope: Any) -> IncomingRequest:
    made = http_scope(url, **scope)
    headers = dict(made["headers"])
    request = parse_request(
        made["method"],
        headers[b"host"],
        made["raw_path"],
        made["query_string"],
        default_ports,
        origin=headers.get(b"origin", b""),
        access_control_request_method=headers.get(b"access-control-request-method", b""),
    )
    cookies = [value for name, value in made["headers"] if name == b"cookie"]
    return IncomingRequest(made, request, headers, cookies, "f" * 32, 0.0, client_address=made["client"][0], is_trusted=is_trusted)


def chunked_receive(*chunks: bytes) -> Any:
    """Return a `receive` that returns these chunks, then blocks."""
    messages = [
        {"type": "http.request", "body": chunk, "more_body": index < len(chunks) - 1} for index, chunk in enumerate(chunks or (b"",))
    ]

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop(0)
        return await asyncio.Event().wait()  # type: ignore[return-value]

    return receive
