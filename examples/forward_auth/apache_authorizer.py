"""FastCGI authorizer for Apache httpd (mod_authnz_fcgi) that requests decisions from gate; needs only Python.

    python3 apache_authorizer.py --listen 127.0.0.1:9010 --gate 127.0.0.1:8443 --forward-auth-host forward.example.com \\
        --origin https://app.example.com

One authorizer serves one origin, from the command line and never from the client. Apache opens a connection for each request and sends
the variables of a CGI program. A 2xx of gate becomes "200" with variables for Apache (GATE_X_GATE_CLAIM_EMAIL and so on); any other
response goes to the browser. Without a response the connection closes, and Apache responds with 500.
"""

import argparse
import http.client
import re
import socketserver
import struct
from collections.abc import Iterator

BEGIN, END, PARAMS, STDIN, STDOUT = 1, 3, 4, 5, 6
MAX_PARAMS_BYTES = 1 << 18
TIMEOUT = 10.0

# Headers for the application; an empty variable removes the client's header.
COPIED = ("x-gate-jwt-assertion", "x-gate-claim-email", "x-gate-claim-groups", "cookie", "authorization")

# Of the client's headers gate sees all but these: they belong to the connection, or are the front proxy's to say.
ANSWERED_WITHOUT_GATE = re.compile(
    "host|content-.*|transfer-encoding|connection|keep-alive|proxy.*|upgrade|te|trailer|expect|accept-encoding"
    "|x-original-(url|uri|method)|x-forwarded-(for|host|method|port|prefix|proto|server|uri)|x-real-ip|forwarded"
)
NOT_PASSED_ON = ("connection", "keep-alive", "transfer-encoding", "content-length", "server", "date")


class Authorizer(socketserver.StreamRequestHandler):
    timeout = TIMEOUT
    server: "AuthorizerServer"

    def handle(self) -> None:
        request_id, params = self._request()
        answer = self._request_decision(dict(params))
        for start in range(0, len(answer), 32768):
            self._write(STDOUT, request_id, answer[start : start + 32768])
        self._write(STDOUT, request_id, b"")
        self._write(END, request_id, struct.pack(">IB3x", 0, 0))

    def _request(self) -> tuple[int, Iterator[tuple[str, str]]]:
        """FastCGI 1.0: records of params until an empty one."""
        data = b""
        while True:
            version, kind, request_id, length, padding = struct.unpack(">BBHHBx", self._exactly(8))
            content = self._exactly(length + padding)[:length]
            if kind == PARAMS:
                data += content
                if not content:
                    return request_id, pairs(data)
            if version != 1 or kind not in (BEGIN, PARAMS) or len(data) > MAX_PARAMS_BYTES:
                raise ConnectionError("this is no request of an authorizer")

    def _exactly(self, length: int) -> bytes:
        data = self.rfile.read(length)
        if len(data) != length:
            raise ConnectionError("ended within a record")
        return data

    def _write(self, kind: int, request_id: int, content: bytes) -> None:
        self.wfile.write(struct.pack(">BBHHBx", 1, kind, request_id, len(content), 0) + content)

    def _request_decision(self, params: dict[str, str]) -> bytes:
        options = self.server.options
        headers = {"Host": options.forward_auth_host}
        for name, value in params.items():
            header = name.removeprefix("HTTP_").replace("_", "-").lower()
            if name.startswith("HTTP_") and not ANSWERED_WITHOUT_GATE.fullmatch(header):
                headers[header] = value
        # As the client wrote it; Apache's own idea of the path is another one.
        # Of several slashes at its beginning Apache forwards one.
        headers["X-Original-URL"] = f"{options.origin}/{params['REQUEST_URI'].lstrip('/')}"
        headers["X-Forwarded-Method"] = params["REQUEST_METHOD"]
        headers["X-Forwarded-For"] = params["REMOTE_ADDR"]
        connection = http.client.HTTPConnection(options.gate, timeout=TIMEOUT)
        try:
            connection.request("GET", "/", headers=headers)
            return render_response(connection.getresponse())
        finally:
            connection.close()


def render_response(response: http.client.HTTPResponse) -> bytes:
    """Return the response for Apache, in the form of a CGI program."""
    if 200 <= response.status < 300:
        lines = [
            "Status: 200 OK",
            "Variable-GATE_PERMITS: 1",
            *(f"Variable-GATE_{name.upper().replace('-', '_')}: {response.getheader(name, '')}" for name in COPIED),
        ]
        return "\r\n".join([*lines, "", ""]).encode("latin-1")
    header_lines = [f"{name}: {value}" for name, value in response.getheaders() if name.lower() not in NOT_PASSED_ON]
    return "\r\n".join([f"Status: {response.status} {response.reason}", *header_lines, "", ""]).encode("latin-1") + response.read()


def pairs(data: bytes) -> Iterator[tuple[str, str]]:
    """FastCGI 1.0, 3.4: lengths of one byte, or of four with the highest bit set."""
    offset = 0

    def length() -> int:
        nonlocal offset
        size = 4 if data[offset] & 0x80 else 1
        value = int.from_bytes(data[offset : offset + size], "big") & (0x7FFFFFFF if size == 4 else 0x7F)
        offset += size
        return value

    while offset < len(data):
        name, value = length(), length()
        yield data[offset : offset + name].decode("latin-1"), data[offset + name : offset + name + value].decode("latin-1")
        offset += name + value


class AuthorizerServer(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, options: argparse.Namespace):
        host, _, port = options.listen.rpartition(":")
        super().__init__((host, int(port)), Authorizer)
        self.options = options


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Asks gate for Apache's mod_authnz_fcgi.")
    parser.add_argument("--listen", default="127.0.0.1:9010", metavar="HOST:PORT")
    parser.add_argument("--gate", default="127.0.0.1:8443", metavar="HOST:PORT")
    parser.add_argument("--forward-auth-host", required=True, metavar="HOST", help="the host of forward_auth_url")
    parser.add_argument("--origin", required=True, metavar="URL", help="what browsers call the application, as in https://app.example.com")
    AuthorizerServer(parser.parse_args()).serve_forever()
