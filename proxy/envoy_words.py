"""What is somebody's Envoy told to answer, to add and to take away?  The same words that our own data plane has."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from authorize.client import Authorizer, Check
from authorize.rpc.ext_authz import Answer, Asked, AskedStory, EnvoyWords
from gateproject.bounded import remembered, together
from gateproject.config.options import Options
from gateproject.errors import BadRequest, GateError
from gateproject.telemetry.request_id import new_request_id
from proxy.answers import send_error, send_redirect
from proxy.carried_elsewhere import is_websocket, require_no_token, require_not_ours, require_websocket_may_open
from proxy.dataplane import Carrying
from proxy.headers import TrustedPeers, credentials_left, fold, is_internal_header
from proxy.incoming import Incoming
from proxy.redirects import redirect_to
from proxy.refusals import Refusals
from proxy.story import Story
from proxy.troubles import explain_trouble

SETUP_ADVICE = "This is about an unusual address, or about how the Envoy is set up; its operator finds more in gate's log."
# An Envoy with `use_remote_address` has overwritten what the client sent under these very names, or put its own address after it.
WRITTEN_BY_ENVOYS = frozenset((b"x-forwarded-for", b"x-forwarded-proto", b"x-request-id"))
NOBODY = TrustedPeers(())  # the Envoy has worked out itself who asks


class Words(EnvoyWords):
    def __init__(self, options: Options, authorize: Authorizer, carrying: Carrying | None = None, clock: Callable[[], float] = time.time):
        self._authorize = authorize
        self._carrying = carrying or Carrying()
        self._refusals = Refusals(options, authorize.is_route_origin, authorize.may_administer)
        self._cookie_name = options.cookie_name
        self._clock = clock

    async def refuse(self, asked: Asked, check: Check) -> Answer:
        said = _Said()
        await self._refusals.send(_incoming(asked), check, said, self._clock())
        return said.answer

    async def explain(self, asked: Asked, error: GateError) -> Answer:
        said = _Said()
        if isinstance(error, BadRequest):
            await send_error(_incoming(asked), said, error.status, f"This request can't be answered: {error}.", advice=SETUP_ADVICE)
        else:
            await explain_trouble(_incoming(asked), error, said)
        return said.answer

    async def redirect(self, asked: Asked, check: Check) -> Answer:
        said, route = _Said(), check.decision.route
        if route is None:
            raise ValueError("a redirect needs its route")
        query = asked.request.query.encode("latin-1")
        status, location = redirect_to(route.route, asked.request, route.route.from_.scheme, query, route.matched_prefix or None)
        await send_redirect(_incoming(asked), said, location, status=status)
        return said.answer

    def require_carriable(self, asked: Asked, check: Check) -> None:
        require_not_ours(asked.request.path)
        require_no_token(asked.request.query)
        route = check.decision.route
        if route is not None and _told(asked).may_be_websocket and check.decision.is_allowed and is_websocket(asked.headers):
            own_origin = f"{route.route.from_.scheme}://{asked.request.host_port}"
            require_websocket_may_open(asked.headers, own_origin, route.route)

    def story(self, asked: Asked) -> Story:
        return Story(_incoming(asked), NOBODY, self._authorize, self._carrying.decisions)

    def tell(self, story: AskedStory, status: int, problem: str) -> None:
        if not isinstance(story, Story):
            raise TypeError("a story is told by who began it")
        check = story.check
        # Clients of gRPC are refused with the status 200, too.
        if check is not None and check.identity is not None and check.decision.is_allowed and status == 200:
            self._carrying.saw(check.identity.session_id, self._clock(), story.incoming.request.host_port)
        story.status, story.problem = status, problem
        story.tell()

    def cleaned(self, asked: Asked, check: Check) -> tuple[Mapping[bytes, bytes], Sequence[bytes]]:
        names, removed = _told(asked).names, list(_told(asked).not_the_envoys)
        if removed and check.identity_headers:
            told = {name for name, _ in check.identity_headers}
            removed = [name for name in removed if name not in told]
        replaced: dict[bytes, bytes] = {}
        if b"x-forwarded-for" in names:
            # Before the address that the Envoy believes there may be others, which the client wrote.
            replaced[b"x-forwarded-for"] = asked.client_address.encode()
        if b"cookie" in names or b"authorization" in names:
            credentials = credentials_left(asked.headers, self._cookie_name, check.withheld)
            for name, left in zip((b"cookie", b"authorization"), credentials, strict=True):
                if left:
                    replaced[name] = left
                elif name in names:
                    removed.append(name)
        return replaced, sorted(removed)


@dataclass(frozen=True, slots=True)
class Told:
    """What follows from the names of a request's headers alone."""

    names: frozenset[bytes]
    not_the_envoys: tuple[bytes, ...]  # what only we may tell an upstream
    may_be_websocket: bool


def _told(asked: Asked) -> Told:
    return _told_by_names(tuple([name for name, _ in asked.headers]))


@remembered(256, longest=2048, size=together)  # browsers send the same names again and again
def _told_by_names(sent: tuple[bytes, ...]) -> Told:
    names = frozenset(sent)
    return Told(
        names,
        tuple(name for name in names if name not in WRITTEN_BY_ENVOYS and is_internal_header(fold(name))),
        is_websocket([(name, b"websocket") for name in names]),
    )


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
    return Incoming(scope, asked.request, dict(asked.headers), list(asked.cookies), asked.request_id or new_request_id(), asked.started)
