"""Traefik 3 as documented for forwardAuth and forwarded headers, because its binary is not in a Debian package.

It reads the same dynamic configuration: rules of Host and PathPrefix, one forwardAuth, headers to remove after it, one server per
service.
"""

import http.client
import re
import ssl
import threading
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import yaml

HOP_BY_HOP = {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade"}
# Removed from each request of an untrusted client at the entry point.
FORWARDED = {f"x-forwarded-{name}" for name in ("for", "proto", "host", "port", "server", "uri", "method", "prefix")} | {"x-real-ip"}
NOT_COPIED = {*HOP_BY_HOP, "host", "content-length"}

Pairs = list[tuple[str, str]]


class Traefik:
    def __init__(self, dynamic: Path, port: int):
        configuration = yaml.safe_load(dynamic.read_text())
        self.http: dict[str, Any] = configuration["http"]
        self._server = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        self._server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        files = configuration["tls"]["certificates"][0]
        context.load_cert_chain(files["certFile"], files["keyFile"])
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def router(self, host: str, path: str) -> dict[str, Any] | None:
        matching = [router for router in self.http["routers"].values() if _matches(router["rule"], host, path)]
        return max(matching, key=lambda router: router.get("priority", len(router["rule"])), default=None)

    def permission(self, method: str, target: str, headers: Pairs, client: str) -> tuple[int, Pairs, bytes, Pairs]:
        """Return (status, headers, body) of the forwardAuth response, and the headers of the forwarded request."""
        forward_auth = self.http["middlewares"]["gate"]["forwardAuth"]
        assert forward_auth["trustForwardHeader"] is False
        address = urlsplit(forward_auth["address"])
        sent = [pair for pair in headers if pair[0].lower() not in NOT_COPIED]
        host = next(value for name, value in headers if name.lower() == "host")
        sent += [("X-Forwarded-Method", method), ("X-Forwarded-Proto", "https"), ("X-Forwarded-Host", host)]
        sent += [("X-Forwarded-Uri", target), ("X-Forwarded-For", client)]
        status, received, body = _exchange("GET", f"127.0.0.1:{address.port}", address.path, [("Host", address.netloc), *sent], b"")
        copied = [name.lower() for name in forward_auth["authResponseHeaders"]]
        cleaned = self.http["middlewares"]["cleaned"]["headers"]["customRequestHeaders"]
        assert not any(cleaned.values())
        replaced = {*copied, *(name.lower() for name in cleaned)}
        retained = [pair for pair in headers if pair[0].lower() not in replaced]
        return status, received, body, retained + [pair for pair in received if pair[0].lower() in copied]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        traefik = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def answer(self) -> None:
                headers_received = _pairs(self.headers)
                headers = [pair for pair in headers_received if pair[0].lower() not in FORWARDED]
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                router = traefik.router(self.headers.get("Host", "").partition(":")[0].lower(), self.path.partition("?")[0])
                if len(self.headers.get_all("Host", [])) != 1:  # like Go's net/http
                    self.reply(400, [], b"400 Bad Request")
                    return
                if router is None:
                    self.reply(404, [], b"404 page not found\n")
                    return
                if router.get("middlewares"):
                    status, received, reply, headers = traefik.permission(self.command, self.path, headers, self.client_address[0])
                    if not 200 <= status < 300:
                        self.reply(status, received, reply)
                        return
                url = traefik.http["services"][router["service"]]["loadBalancer"]["servers"][0]["url"]
                headers = [pair for pair in headers if pair[0].lower() not in NOT_COPIED - {"host"}]
                headers += [("X-Forwarded-For", self.client_address[0]), ("X-Forwarded-Proto", "https")]
                self.reply(*_exchange(self.command, urlsplit(url).netloc, self.path, headers, body))

            do_GET = do_POST = do_HEAD = do_OPTIONS = do_PUT = answer

            def reply(self, status: int, headers: Pairs, body: bytes) -> None:
                self.send_response_only(status)
                for name, value in headers:
                    if name.lower() not in NOT_COPIED:
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        return Handler


def _matches(rule: str, host: str, path: str) -> bool:
    parts = dict(re.findall(r"(Host|PathPrefix)\(`([^`]+)`\)", rule))
    return parts["Host"] == host and path.startswith(parts.get("PathPrefix", "/"))


def _pairs(headers: Message) -> Pairs:
    return [(name, str(value)) for name, value in headers.items()]


def _exchange(method: str, host: str, target: str, headers: Pairs, body: bytes) -> tuple[int, Pairs, bytes]:
    connection = http.client.HTTPConnection(host, timeout=10)
    try:
        connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
        for name, value in [*headers, ("Content-Length", str(len(body)))] if body else headers:
            connection.putheader(name, value.encode("latin-1"))
        connection.endheaders(body or None)
        response = connection.getresponse()
        return response.status, _pairs(response.headers), response.read()
    finally:
        connection.close()
