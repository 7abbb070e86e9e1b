"""An application behind gate, in a thread of its own: says as JSON what it received, or drips; counts its requests."""

import contextlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class SampleUpstream:
    """`hits` counts every request that arrived, `posted` holds what was posted; `pages` are HTML, by path."""

    def __init__(self) -> None:
        upstream = self
        self.hits = 0
        self.posted: list[tuple[str, str, bytes]] = []  # (target, content type, body)
        self.pages: dict[str, str] = {}

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                upstream.hits += 1
                if self.path.endswith("/drip"):
                    self.drip()
                    return
                content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if self.command == "POST":
                    upstream.posted.append((self.path, self.headers.get("Content-Type", ""), content))
                heard = {
                    "method": self.command,
                    "target": self.path,
                    "headers": [[name.lower(), value] for name, value in self.headers.items()],
                    "body": content.decode("latin-1"),
                }
                page = upstream.pages.get(self.path)
                body = json.dumps(heard).encode() if page is None else page.encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json" if page is None else "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def drip(self) -> None:
                """A response that never ends by itself."""
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                with contextlib.suppress(OSError):
                    while True:
                        self.wfile.write(b"1\r\n.\r\n")
                        time.sleep(0.02)

            do_POST = do_PUT = do_DELETE = do_OPTIONS = do_GET

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)
