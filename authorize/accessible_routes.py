"""Applications that a user may open now.  Each is found by authorizing the request for its entry page."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from authorize.policy.compiled_route import CompiledRoute
from authorize.policy.decision import Decision, Outcome
from authorize.policy.mcp_message import NO_MESSAGE
from authorize.policy.paths.canonical import canonical_path
from authorize.policy.policy_request import CONNECT, PolicyRequest
from authorize.policy.route_table import RouteTable
from authorize.policy.unreachable_routes import literal_prefix
from config.routes.policy.criteria import MCP_CRITERIA
from config.routes.policy.policy_language import ENFORCE, iter_comparisons
from foundation.errors import BadRequest

# Maximum time on the event loop before yielding, so that a list of a thousand routes does not block other requests.
YIELD_INTERVAL_SECONDS = 0.004
# Headers that a browser sends per host or per page.  It sends all others with every request.
_REQUEST_SPECIFIC_HEADERS = frozenset(
    (b"host", b"cookie", b"authorization", b"origin", b"referer", b"range", b"content-type", b"content-length", b"sec-fetch-site")
)
_REQUEST_CRITERIA = frozenset({"http_method", "http_path", "http_header"}) | MCP_CRITERIA

Headers = Sequence[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class AccessibleRoute:
    """Application that a user may open.  `needs_step_up` is True if it requires a stronger sign-in first."""

    route: CompiledRoute
    needs_step_up: bool = False

    @property
    def is_partially_accessible(self) -> bool:
        """Return whether other requests than the entry page may be denied, because a rule checks method, path or headers."""
        blocks = [block for block in self.route.route.policy if block.mode == ENFORCE]
        return any(comparison.criterion in _REQUEST_CRITERIA for comparison in iter_comparisons(blocks))


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """Entry page of a route, or its tunnel: the request that represents the application."""

    method: str
    host: str
    port: int | None
    path: str
    host_header: tuple[bytes, bytes]

    @classmethod
    def for_route(cls, route: CompiledRoute, default_ports: frozenset[int]) -> "EntryPoint | None":
        """Return the entry page of a route, or None if it cannot be determined."""
        path = entry_path(route)
        if path is None:
            return None
        address, is_tcp = route.route.from_, route.route.is_tcp
        port = None if address.port in default_ports and not is_tcp else address.port
        host = address.host if port is None else f"{address.host}:{port}"
        return cls(CONNECT if is_tcp else "GET", address.host, port, path, (b"host", host.encode()))

    def build_request(self, portal_request: PolicyRequest, headers: Headers) -> PolicyRequest:
        """Return the request that the client of `portal_request` would send.

        `headers` are its ambient headers, which it sends to every host.
        """
        return PolicyRequest(
            method=self.method,
            host=self.host,
            port=self.port,
            path=self.path,
            source_ip=portal_request.source_ip,
            headers=(self.host_header, *headers),
            client_certificate=portal_request.client_certificate,
            mcp=NO_MESSAGE,
        )


# enforcement-point: Authorization: Applications in the portal
class EntryPoints:
    """Entry pages of a route table, each computed on first use."""

    def __init__(self, table: RouteTable, default_ports: frozenset[int]):
        self._routes = [route for route in table.routes() if route.route.is_in_portal]
        self._default_ports = default_ports
        self._pages: dict[int, EntryPoint | None] = {}  # by the place of the route

    async def find_accessible(
        self, portal_request: PolicyRequest, decide: Callable[[PolicyRequest], Decision]
    ) -> tuple[AccessibleRoute, ...]:
        """Return the accessible routes that are listed in the portal, in their order.

        `portal_request` is the request for the list.  A route is listed only if that client's GET of its entry page, or its CONNECT,
        would be allowed.
        """
        headers, found, started = ambient_headers(portal_request.headers), [], time.monotonic()
        for index, route in enumerate(self._routes):
            if (page := self._page(index, route)) is not None:
                opening = _opening(route, page.build_request(portal_request, headers), decide)
                if opening is not None:
                    found.append(opening)
            if time.monotonic() - started > YIELD_INTERVAL_SECONDS:
                await asyncio.sleep(0)
                started = time.monotonic()
        return tuple(found)

    def _page(self, index: int, route: CompiledRoute) -> EntryPoint | None:
        if index not in self._pages:
            self._pages[index] = EntryPoint.for_route(route, self._default_ports)
        return self._pages[index]


def ambient_headers(headers: Headers) -> Headers:
    return tuple(header for header in headers if header[0] not in _REQUEST_SPECIFIC_HEADERS)


def _opening(route: CompiledRoute, request: PolicyRequest, decide: Callable[[PolicyRequest], Decision]) -> AccessibleRoute | None:
    try:
        decision = decide(request)
    except BadRequest:
        return None
    if decision.route is not route or decision.outcome not in (Outcome.ALLOWED, Outcome.STEP_UP):
        return None
    return AccessibleRoute(route, needs_step_up=decision.outcome is Outcome.STEP_UP)


def entry_path(route: CompiledRoute) -> str | None:
    """Return the path of the entry page.

    None for a wildcard host, and for a regex without a literal prefix that matches.
    """
    if "*" in route.route.from_.host:
        return None
    named = (route.matched_prefix, "/", _beginning(route.route.regex or ""))
    return next((path for path in named if path and route.matches(path)), None)


def _beginning(regex: str) -> str:
    try:
        return canonical_path(literal_prefix(regex).encode())
    except BadRequest:
        return ""
