"""What is somebody's Envoy told to answer, to add and to take away?  The same words that our own data plane has."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from authorize.client import Check
from authorize.rpc.ext_authz import Answer, Asked, EnvoyWords
from gateproject.config.options import Options
from gateproject.errors import BadRequest, GateError
from gateproject.telemetry.request_id import new_request_id
from proxy.answers import send_error, send_redirect
from proxy.headers import fold, is_internal_header, without_our_credentials
from proxy.incoming import Incoming
from proxy.redirects import redirect_to
from proxy.refusals import Refusals


class Words(EnvoyWords):
    def __init__(self, options: Options, is_route_origin: Callable[[str], bool], clock: Callable[[], float] = time.time):
        self._refusals = Refusals(options, is_route_origin)
        self._cookie_name = options.cookie_name
        self._clock = clock

    async def refuse(self, asked: Asked, check: Check) -> Answer:
        said = _Said()
        await self._refusals.send(_incoming(asked), check, said, self._clock())
        return said.answer

    async def explain(self, asked: Asked, error: GateError) -> Answer:
        said = _Said()
        if isinstance(error, BadRequest):
            await send_error(_incoming(asked), said, error.status, f"This request can't be answered: {error}.")
        else:
            reason = "Your session can't be read right now."
            await send_error(_incoming(asked), said, 503, reason, advice="Please try again in a moment.")
        return said.answer

    async def redirect(self, asked: Asked, check: Check) -> Answer:
        said, route = _Said(), check.decision.route
        if route is None:
            raise ValueError("a redirect needs its route")
        query = asked.request.query.encode("latin-1")
        status, location = redirect_to(route.route, asked.request, route.route.from_.scheme, query, route.matched_prefix or None)
        await send_redirect(_incoming(asked), said, location, status=status)
        return said.answer

    def cleaned(self, asked: Asked, check: Check) -> tuple[Mapping[bytes, bytes], Sequence[bytes]]:
        told = {name for name, _ in check.identity_headers}
        removed = {name for name, _ in asked.headers if is_internal_header(fold(name)) and name not in told}
        credentials = (b"", b"") if check.decision.is_preflight else without_our_credentials(asked.headers, self._cookie_name)
        replaced: dict[bytes, bytes] = {}
        for name, left in zip((b"cookie", b"authorization"), credentials, strict=True):
            if name not in dict(asked.headers):
                continue
            if left:
                replaced[name] = left
            else:
                removed.add(name)
        return replaced, sorted(removed)


class _Said:
    """An ASGI `send` that keeps what was said."""

    def __init__(self) -> None:
        self._status = 500
        self._headers: Sequence[tuple[bytes, bytes]] = ()
        self._body = b""

    async def __call__(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._status, self._headers = message["status"], message["headers"]
        else:
            self._body += message.get("body", b"")

    @property
    def answer(self) -> Answer:
        return Answer(self._status, self._headers, self._body)


def _incoming(asked: Asked) -> Incoming:
    scope = {
        "method": asked.request.method,
        "headers": list(asked.headers),
        "client": (asked.client_address, 0) if asked.client_address else None,
    }
    return Incoming(scope, asked.request, dict(asked.headers), list(asked.cookies), asked.request_id or new_request_id(), time.monotonic())
