"""Sign-in with the user's browser: authorization code with PKCE on a loopback redirect (RFC 8252, RFC 7636).

Other users of this machine can read the arguments of the browser's process. They could sign in there as themselves, and this user would
continue with another account (login CSRF). Therefore the browser is started with a local URL that works once and redirects to the
authorization URL: `state` and the code challenge are in no argument list, and a second use of the local URL ends the sign-in.
"""

import asyncio
import base64
import contextlib
import hashlib
import hmac
import secrets
from collections.abc import Awaitable, Callable
from urllib.parse import parse_qsl

from foundation.tasks import spawn
from gateproject.tunnel.oauth_client import AuthorizationServer, printable
from gateproject.tunnel.tls_connection import TunnelError
from gateproject.tunnel.token_file import StoredToken, is_token

SIGN_IN_SECONDS = 600.0
# An attacker's request of the start URL can precede that of the browser, which then is the second one.
MIN_SIGN_IN_SECONDS = 3.0
CALLBACK_PATH = "/callback"
_REQUEST_SECONDS = 10.0
_MAX_HEAD_BYTES = 32 * 1024  # bytes
_SIGNED_IN = "The sign-in is complete. Return to the terminal; you can close this page."
_FAILED = "You are not signed in. The terminal shows the reason; you can close this page."
_USED = "This sign-in link was used before, so the sign-in was cancelled. Try again."
_NOT_FOUND = "There is nothing here."

_Answer = tuple[str, str, str]  # status, text and Location


async def sign_in(server: AuthorizationServer, open_browser: Callable[[str], Awaitable[None]]) -> StoredToken:
    """Return the tokens of a sign-in in the browser. Raise TunnelError."""
    verifier = secrets.token_urlsafe(48)
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    receiver = _LoopbackReceiver(server.issuer)
    listener = await asyncio.start_server(receiver.serve, "127.0.0.1", 0, limit=_MAX_HEAD_BYTES)
    # Not `async with`, which waits for connections that a browser opens ahead.
    with contextlib.closing(listener):
        origin = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        redirect_uri = origin + CALLBACK_PATH
        receiver.authorization_url = server.build_authorization_url(
            redirect_uri=redirect_uri, state=receiver.state, code_challenge=challenge, code_challenge_method="S256"
        )
        opening = spawn(_open(open_browser, origin + receiver.start_path, receiver), name="browser")
        try:
            code = await receiver.wait()
        finally:
            opening.cancel()
    return await server.request_tokens("authorization_code", code=code, redirect_uri=redirect_uri, code_verifier=verifier)


async def _open(open_browser: Callable[[str], Awaitable[None]], url: str, receiver: "_LoopbackReceiver") -> None:
    try:
        await open_browser(url)
    except TunnelError as error:
        receiver.fail(str(error))


class _LoopbackReceiver:
    """Server of the start URL and the redirect URI of one sign-in."""

    def __init__(self, issuer: str) -> None:
        self._issuer = issuer
        self.state = secrets.token_urlsafe(24)
        self.start_path = f"/start/{secrets.token_urlsafe(24)}"
        self.authorization_url = ""
        self._is_started = False
        self._code: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._failure: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def wait(self) -> str:
        """Return the authorization code. Raise TunnelError."""
        earliest = asyncio.get_running_loop().time() + MIN_SIGN_IN_SECONDS
        await asyncio.wait({self._code, self._failure}, timeout=SIGN_IN_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait({self._failure}, timeout=max(0.0, earliest - asyncio.get_running_loop().time()))
        if self._failure.done():
            raise TunnelError(self._failure.result())
        if not self._code.done():
            raise TunnelError(f"no sign-in within {SIGN_IN_SECONDS / 60:.0f} minutes")
        return self._code.result()

    def fail(self, reason: str) -> None:
        if not self._failure.done():
            self._failure.set_result(reason)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
            method, _, rest = head.split(b"\r\n", 1)[0].decode("latin-1").partition(" ")
            path, _, query = rest.partition(" ")[0].partition("?")  # not urlsplit, which raises for malformed targets
            status, text, location = self._respond(path, query) if method == "GET" else ("404 Not Found", _NOT_FOUND, "")
            lines = [f"HTTP/1.1 {status}", "Content-Type: text/plain; charset=utf-8", f"Content-Length: {len(text) + 1}"]
            lines += ["Cache-Control: no-store", "Referrer-Policy: no-referrer", "Connection: close"]
            lines += [f"Location: {location}"] if location else []
            writer.write("\r\n".join([*lines, "", f"{text}\n"]).encode("ascii"))
            await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            pass  # another client, or the browser has disconnected
        finally:
            writer.close()

    def _respond(self, path: str, query: str) -> _Answer:
        if _is_equal(path, self.start_path):
            return self._start()
        params = parse_qsl(query) if path == CALLBACK_PATH else []
        response = dict(params)
        # Other pages and programs can send requests here: only one with the state is the response.
        if len(response) != len(params) or not _is_equal(response.get("state", ""), self.state):
            return "404 Not Found", _NOT_FOUND, ""
        return self._complete(response)

    def _start(self) -> _Answer:
        if self._is_started:
            self.fail("the local sign-in link was opened twice, perhaps by another user of this machine. Try again")
            return "410 Gone", _USED, ""
        self._is_started = True
        return "302 Found", "", self.authorization_url

    def _complete(self, response: dict[str, str]) -> _Answer:
        """Accept the authorization response. RFC 9207: `iss` detects the response of another server (mix-up)."""
        error, code = printable(response.get("error", "")), response.get("code", "")
        if response.get("iss") != self._issuer:
            self.fail("the response to the sign-in is of another authorization server")
        elif error == "access_denied":
            self.fail("the access was denied in the browser")
        elif error or not is_token(code):
            self.fail(f"the sign-in failed: {printable(response.get('error_description', '')) or error or 'there is no code'}")
        elif not self._code.done():
            self._code.set_result(code)
        return ("200 OK", _SIGNED_IN, "") if self._code.done() and not self._failure.done() else ("400 Bad Request", _FAILED, "")


def _is_equal(value: str, secret: str) -> bool:
    return hmac.compare_digest(value.encode(), secret.encode())
