"""Proxy service: finds the handler of each incoming request."""

from collections.abc import Callable
from typing import Any, Protocol

from authorize.authorizer import AuthorizePageContext, Authorizer
from authorize.policy.policy_request import CONNECT, PolicyRequest, parse_request
from authorize.protected_resources import ProtectedResource, ProtectedResources, common_providers
from authorize.route_settings import reserved_hosts
from config.options import Options
from config.routes.route import Route
from databroker.session_reader import SessionReader
from foundation.bounded_cache import MemoCache
from foundation.crypto.handoff import TO_CLIENT_APPLICATION, HandoffTokens
from foundation.crypto.programmatic import ProgrammaticTokens
from foundation.crypto.session_cookie import SessionCookies
from foundation.crypto.sign_in_attempts import SignInAttempts
from foundation.web.asgi_types import Send
from foundation.web.page_context import request_context
from proxy.client_address import client_address, source_ip, trusted_peers
from proxy.incoming_request import TLS_EXTENSION, IncomingRequest, build_incoming_request, client_certificate
from proxy.observe.request_metrics import RequestCounter
from proxy.planes.embedded import EmbeddedDataPlane
from proxy.planes.forward_auth import ForwardAuth
from proxy.planes.pipeline import AuthorizationPipeline
from proxy.planes.shared_resources import SharedResources
from proxy.reserved_paths import HostRoles, RequestHandler, handler_for
from proxy.responses import builtin_pages
from proxy.responses.site_context import build_site_info
from proxy.sign_in.redirect_uris import RedirectUriAllowlist
from proxy.upstreams.cluster import Clusters
from proxy.upstreams.upstream_errors import UpstreamErrors

MAX_PORT_DIGITS = len("65535")
PROXY_ROLES, AUTHENTICATE_ROLES = ("all", "proxy"), ("all", "authenticate")
# Limits of the cache of host roles, because clients choose the Host header.
MAX_CACHED_HOSTS, MAX_HOST_LENGTH = 1024, 253


class ProxyService:
    def __init__(self, options: Options, pipeline: AuthorizationPipeline, resources: SharedResources):
        self.clock = pipeline.clock
        self._options = options
        self._authorize = authorize = pipeline.authorizer
        self._trusted = trusted_peers(options.trusted_proxies)
        # Only Strict-Transport-Security of `headers` also applies to gate's own responses, because it applies to the host.
        configured_headers = {name.lower(): value for name, value in options.headers.items()}
        site_headers = tuple(
            (name.encode(), configured_headers[name].encode("latin-1"))
            for name in ("strict-transport-security",)
            if name in configured_headers
        )
        self._site = build_site_info(options, site_headers)
        self._serves_routes = options.services in PROXY_ROLES
        self.protected_resources = ProtectedResources(options.policy, reserved_hosts(options))
        self._host_roles = MemoCache(
            _host_roles(options, authorize, self.protected_resources),
            MAX_CACHED_HOSTS,
            max_key_length=MAX_HOST_LENGTH,
            size=lambda address: len(address[0]),
        )
        gate_hosts = {each.host for each in (options.authenticate_service_url, options.forward_auth_url) if each is not None}
        authenticate = options.authenticate_service_url if options.services in AUTHENTICATE_ROLES else None
        self._authenticate_host = None if authenticate is None else authenticate.host
        self.request_counter = RequestCounter(options.service_label, gate_hosts | authorize.routes.hosts)
        self.data_plane: EmbeddedDataPlane = EmbeddedDataPlane(options, pipeline, resources)
        self.clusters: Clusters = self.data_plane.forwarding_table.clusters
        self.upstream_errors: UpstreamErrors = self.data_plane.upstream_errors
        self.forward_auth = ForwardAuth(options, pipeline)
        self.sign_in_urls, self.sign_in_loops = pipeline.renderer.sign_in_urls, pipeline.verdicts.loops
        self.session_cookies = SessionCookies(options)
        self.session_reader = SessionReader(options)
        self.sign_in_attempts = SignInAttempts(options, "route")
        self.handoffs = HandoffTokens(options)
        self.redirect_uris = RedirectUriAllowlist(options)
        self.programmatic_handoffs = HandoffTokens(options, TO_CLIENT_APPLICATION)
        self.programmatic_tokens = ProgrammaticTokens(options)

    def build_incoming(self, scope: dict[str, Any]) -> IncomingRequest:
        """Build a request that is not parsed yet, with the address of its client."""
        incoming = build_incoming_request(scope)
        incoming.site, incoming.is_trusted = self._site, incoming.peer in self._trusted
        incoming.client_address = client_address(incoming, self._trusted)
        return incoming

    def parse_and_find_handler(self, incoming: IncomingRequest) -> RequestHandler:
        """Parse the request and return its handler.  Raises BadRequest if it has more than one interpretation."""
        scope, headers = incoming.scope, incoming.headers
        incoming.request = parse_request(
            scope["method"],
            headers.get(b"host", b""),
            scope["raw_path"],
            scope["query_string"],
            self._authorize.default_ports,
            origin=headers.get(b"origin", b""),
            access_control_request_method=headers.get(b"access-control-request-method", b""),
            source_ip=source_ip(incoming, self._trusted),
            headers=scope["headers"],
            client_certificate=client_certificate(incoming) if TLS_EXTENSION in scope.get("extensions", ()) else None,
        )
        return self.handler_for(incoming.request)

    def handler_for(self, request: PolicyRequest) -> RequestHandler:
        if request.method == CONNECT:  # because no gate page accepts CONNECT
            return RequestHandler.DATA_PLANE if self._serves_routes else RequestHandler.NOT_FOUND
        handler = handler_for(request.path, self._host_roles[request.host, request.port], self._options.authenticate_callback_path)
        # A public route serves its application's robots.txt.
        return RequestHandler.DATA_PLANE if handler is RequestHandler.ROBOTS and self._authorize.is_public(request) else handler

    def origin_for(self, request: PolicyRequest) -> str:
        return f"{self._authorize.scheme_for(request.host, request.port)}://{request.host_port}"

    def tunnel_route(self, host: str, port: str) -> Route | None:
        """Return the TCP route for this host and port, for which a client application requests a token; None without one."""
        if not (port.isascii() and port.isdecimal() and len(port) <= MAX_PORT_DIGITS):
            return None
        compiled = self._authorize.routes.match(PolicyRequest(CONNECT, host, int(port), "/"))
        return compiled.route if compiled is not None else None

    def command_line_resource(self, request: PolicyRequest, tunnel_port: str) -> ProtectedResource | None:
        """Return the resource of gate's command line at this host: its tunnel on a port, or with "" its pages."""
        if tunnel_port and self.tunnel_route(request.host, tunnel_port) is None:
            return None
        origin = f"tcp+https://{request.host}:{int(tunnel_port)}" if tunnel_port else self.origin_for(request)
        return self.protected_resources.find(origin, of_command_line=True)

    def providers_for(self, request: PolicyRequest) -> tuple[str, ...]:
        """Return the identity providers that the routes at a request's host accept; () if a route accepts all providers."""
        return common_providers(compiled.route for compiled in self._authorize.routes.routes_for(request.host, request.port))

    def is_authenticate_host(self, name: str) -> bool:
        """Return whether this process serves the sign-in pages under this host name."""
        return name.lower().removesuffix(".") == self._authenticate_host

    async def respond(self, handler: RequestHandler, incoming: IncomingRequest, send: Send, *, is_healthy: bool = True) -> None:
        await builtin_pages.respond(handler, incoming, self._options, send, is_healthy=is_healthy)


class ProxyPageContext(AuthorizePageContext, Protocol):
    """Page context with the proxy service."""

    @property
    def incoming(self) -> IncomingRequest: ...
    @property
    def proxy(self) -> ProxyService: ...


page_context: Callable[[Any], ProxyPageContext] = request_context


def _host_roles(options: Options, authorize: Authorizer, resources: ProtectedResources) -> Callable[[tuple[str, int | None]], HostRoles]:
    """Return a function from host and port to roles.

    It is not a method, because a service must not contain reference cycles (process/gc_tuning.py).
    """
    authenticate, forward_auth = options.authenticate_service_url, options.forward_auth_url
    authenticate_address = (authenticate.host, authenticate.port) if options.services in AUTHENTICATE_ROLES else None
    serves_routes = options.services in PROXY_ROLES

    def find_roles(address: tuple[str, int | None]) -> HostRoles:
        is_authenticate_host = address == authenticate_address
        is_route_host = serves_routes and authorize.serves_host(*address)
        # On any port, because front proxies use an internal address of gate.
        is_forward_auth_host = serves_routes and forward_auth is not None and address[0] == forward_auth.host
        has_health_paths = options.health_paths_on_routes or not is_route_host or is_authenticate_host or is_forward_auth_host
        has_resources = is_route_host and bool(resources.for_host(*address))
        return HostRoles(is_authenticate_host, is_route_host, is_forward_auth_host, has_health_paths, has_resources)

    return find_roles
