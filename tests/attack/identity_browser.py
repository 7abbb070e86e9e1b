"""A browser for attacks: keeps cookies by host, follows nothing by itself, and sends what a library would refuse to send."""

import ssl
from collections.abc import Iterable
from dataclasses import dataclass

from tests.support.raw_http import Broken, RawClient, RawResponse

HTML = (("Accept", "text/html"), ("Sec-Fetch-Mode", "navigate"))
JSON = (("Accept", "application/json"),)
Headers = Iterable[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Answer:
    """A response, and its URL."""

    url: str
    raw: RawResponse

    @property
    def status(self) -> int:
        return self.raw.status

    @property
    def location(self) -> str:
        return self.raw.header("location") or ""

    @property
    def text(self) -> str:
        return self.raw.body.decode("utf-8", "replace")

    def header(self, name: str) -> str:
        return self.raw.header(name) or ""

    @property
    def set_cookies(self) -> list[str]:
        return [value for name, value in self.raw.headers if name.lower() == "set-cookie"]


class Connections:
    """To gate, by the name that is asked for.  All browsers use the same ones: whose request it is must never depend on that."""

    def __init__(self, port: int, tls: ssl.SSLContext):
        self._port = port
        self._tls = tls
        self._open: dict[str, RawClient] = {}

    def exchange(self, name: str, request: bytes, method: str) -> RawResponse:
        stored = name in self._open
        try:
            raw = self._to(name).send(request).response(method)
        except (Broken, OSError):
            self._forget(name)
            if not stored:
                raise
            # The kept connection had been closed while it was idle.
            raw = self._to(name).send(request).response(method)
        if raw.announces_close:
            self._forget(name)
        return raw

    def close(self) -> None:
        for name in list(self._open):
            self._forget(name)

    def _to(self, name: str) -> RawClient:
        if name not in self._open:
            self._open[name] = RawClient(self._port, tls=self._tls, server_name=name)
        return self._open[name]

    def _forget(self, name: str) -> None:
        if (connection := self._open.pop(name, None)) is not None:
            connection.__exit__()


class Browser:
    """`cookies` may be read, stolen and bent."""

    def __init__(self, connections: Connections):
        self.cookies: dict[str, dict[str, str]] = {}
        self._connections = connections

    def open(
        self, url: str, *, method: str = "GET", headers: Headers = HTML, body: str = "", host: str | None = None, cookies: bool = True
    ) -> Answer:
        """One exchange.  `url` must be absolute; its path and query are sent as they are.  `host` replaces the Host header."""
        authority, slash, rest = url.partition("://")[2].partition("/")
        name = authority.partition(":")[0]
        lines = [f"{method} {slash or '/'}{rest} HTTP/1.1", f"Host: {authority if host is None else host}"]
        lines += [f"{key}: {value}" for key, value in headers]
        if cookies and (sent := self.cookie_header(name)):
            lines.append(f"Cookie: {sent}")
        if body or method in ("POST", "PUT", "PATCH"):
            lines.append(f"Content-Length: {len(body.encode())}")
        raw = self._connections.exchange(name, "\r\n".join([*lines, "", body]).encode("utf-8", "surrogateescape"), method)
        answer = Answer(url, raw)
        if cookies:
            self._keep_cookies(name, answer)
        return answer

    def cookie_header(self, name: str) -> str:
        return "; ".join(f"{key}={value}" for key, value in self.cookies.get(name, {}).items())

    def fork(self) -> "Browser":
        """Another tab's view or a thief's copy: the same cookies now, separate from here on."""
        other = Browser(self._connections)
        other.cookies = {name: dict(jar) for name, jar in self.cookies.items()}
        return other

    def _keep_cookies(self, name: str, answer: Answer) -> None:
        jar = self.cookies.setdefault(name, {})
        for line in answer.set_cookies:
            pair, *attributes = line.split(";")
            key, _, value = pair.strip().partition("=")
            if any(attribute.strip().lower() == "max-age=0" for attribute in attributes):
                jar.pop(key, None)
            else:
                jar[key] = value
