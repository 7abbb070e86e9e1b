"""Applications that a user may open now.  Each is found by authorizing the request for its entry page."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Protocol

from authorize.policy.compiled_route import CompiledRoute
from authorize.policy.decision import Decision, Outcome
from authorize.policy.mcp_message import NO_MESSAGE, McpMessage
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

# First messages of MCP clients of all revisions.
_MCP_ENTRY_METHODS = ("initialize", "server/discover", "tools/list", "prompts/list", "resources/list")
# Clients that a policy names and that are tried, and the id of any other one.
MAX_NAMED_CLIENTS, _OTHER_CLIENT = 20, "-"

Headers = Sequence[tuple[bytes, bytes]]


class Decide(Protocol):
    def __call__(self, request: PolicyRequest, client_id: str = "", /) -> Decision:
        """Return the decision on a request of the user's browser, or of an OAuth client with all scopes of the route."""


@dataclass(frozen=True, slots=True)
class AccessibleRoute:
    """Application that a user may open.

    `needs_step_up` is True if it requires a stronger sign-in first.  `opens_page` is whether a browser may open its entry page, and
    `serves_mcp` whether an MCP client of the user may connect to it.
    """

    route: CompiledRoute
    needs_step_up: bool = False
    opens_page: bool = True
    serves_mcp: bool = False

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
        self._routes = table.routes()
        self._default_ports = default_ports
        self._pages: dict[int, EntryPoint | None] = {}  # by the place of the route

    async def find_accessible(self, portal_request: PolicyRequest, decide: Decide) -> tuple[AccessibleRoute, ...]:
        """Return the accessible routes in their order, including those that the portal hides (`Route.is_in_portal`).

        `portal_request` is the request for the list.  A route is accessible only if that client's GET of its entry page, or its CONNECT,
        would be allowed.  An MCP server is also accessible if a first message of an MCP client of the user would be.
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


def _opening(route: CompiledRoute, request: PolicyRequest, decide: Decide) -> AccessibleRoute | None:
    page, mcp = _outcome(route, request, decide), _mcp_outcome(route, request, decide)
    if page is None and mcp is None:
        return None
    return AccessibleRoute(route, Outcome.ALLOWED not in (page, mcp), opens_page=page is not None, serves_mcp=mcp is not None)


def _outcome(route: CompiledRoute, request: PolicyRequest, decide: Decide, client_id: str = "") -> Outcome | None:
    """Return ALLOWED, or STEP_UP, None if the user may not send the request to this route."""
    try:
        decision = decide(request, client_id)
    except BadRequest:
        return None
    return decision.outcome if decision.compiled_route is route and decision.outcome in (Outcome.ALLOWED, Outcome.STEP_UP) else None


def _mcp_outcome(route: CompiledRoute, request: PolicyRequest, decide: Decide) -> Outcome | None:
    """Return the outcome of the first message of an MCP client that is accepted, None for other routes."""
    if route.route.mcp is None:
        return None
    endpoint = replace(request, method="POST", path=route.route.mcp.path or request.path)
    for client_id in ("", *_mcp_clients(route)):
        for method in _MCP_ENTRY_METHODS:
            if (found := _outcome(route, endpoint.with_message(McpMessage(method)), decide, client_id)) is not None:
                return found
    return None


def _mcp_clients(route: CompiledRoute) -> list[str]:
    """Return the clients that the policy names, and another one, if it compares clients or scopes."""
    if route.route.criteria.isdisjoint({"client", "scope"}):
        return []
    blocks = [block for block in route.route.policy if block.mode == ENFORCE]
    named = [each.operand for each in iter_comparisons(blocks) if each.criterion == "client" and each.operator in ("is", "in")]
    return [*list(dict.fromkeys(chain.from_iterable(named)))[:MAX_NAMED_CLIENTS], _OTHER_CLIENT]


def entry_path(route: CompiledRoute) -> str | None:
    """Return the path of the entry page.

    None for a wildcard host, and for a regex without a literal prefix that matches.
    """
    if "*" in route.route.from_.host:
        return None
    endpoint = route.route.mcp.path if route.route.mcp is not None else None
    named = (route.matched_prefix, "/", _beginning(route.route.regex or ""), endpoint)
    return next((path for path in named if path and route.matches(path)), None)


def _beginning(regex: str) -> str:
    try:
        return canonical_path(literal_prefix(regex).encode())
    except BadRequest:
        return ""
