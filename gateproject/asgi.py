"""ASGI application: routes each request by host and canonical path to one of gate's pages or to the data plane."""

import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateproject.settings")  # noqa: TID251 - an entry point
django.setup()

from channels.routing import ProtocolTypeRouter  # noqa: E402 - Django must be set up first
from django.core.asgi import get_asgi_application  # noqa: E402

from authenticate.service import AuthenticatePageContext, AuthenticateService  # noqa: E402
from authorize.authorizer import Authorizer  # noqa: E402
from config.options import Options  # noqa: E402
from databroker.broker_client import BrokerClient  # noqa: E402
from foundation.errors import BadRequest, ConfigError  # noqa: E402
from foundation.readiness import ReadinessReport  # noqa: E402
from foundation.web.asgi_types import Receive, Send  # noqa: E402
from foundation.web.message import Message  # noqa: E402
from gateproject.process.reload import ConfigProvenance, ConfigurationStatus  # noqa: E402
from gateproject.process.runtime import Runtime  # noqa: E402
from gateproject.process.services import Services, require_service  # noqa: E402
from gateproject.process.start import runtime_from_settings  # noqa: E402
from gateproject.process.third_party_server import ThirdPartyServer, open_under_daphne  # noqa: E402
from proxy.incoming_request import BodyTooLarge, IncomingRequest, limit_body  # noqa: E402
from proxy.listener.daphne_command import install  # noqa: E402
from proxy.listener.http1.exchange import is_from_gate_listener  # noqa: E402
from proxy.observe.request_recorder import PageLog  # noqa: E402
from proxy.observe.request_spans import name_builtin_span, recording_status, start_request_span  # noqa: E402
from proxy.reserved_paths import RequestHandler  # noqa: E402
from proxy.responses.denials import denial_from_error  # noqa: E402
from proxy.responses.renderer import send_denial  # noqa: E402
from proxy.service import ProxyPageContext, ProxyService  # noqa: E402
from proxy.verdict import Deny  # noqa: E402

# Django buffers a complete body before it resolves the view. gate's largest form is the admin's, with a page of ids.
PAGE_BODY_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class GatePageContext:
    """Page context of gate's Django views, which they get by `page_context`. Raises RuntimeError for a missing service."""

    services: Services
    configuration: ConfigurationStatus
    provenance: ConfigProvenance
    incoming: IncomingRequest
    is_authenticate_host: bool
    readiness: Callable[[], ReadinessReport]

    @property
    def options(self) -> Options:
        return self.services.options

    @property
    def broker(self) -> BrokerClient:
        return self.services.broker

    @property
    def authorize(self) -> Authorizer:
        return require_service(self.services.authorize)

    @property
    def authenticate(self) -> AuthenticateService:
        return require_service(self.services.authenticate)

    @property
    def proxy(self) -> ProxyService:
        return require_service(self.services.proxy)

    @property
    def request_id(self) -> str:
        return self.incoming.request_id

    @property
    def client_address(self) -> str:
        return self.incoming.client_address


if TYPE_CHECKING:

    def _as_pages_see_it(page: GatePageContext) -> tuple[AuthenticatePageContext, ProxyPageContext]:
        return page, page


class GateApplication:
    """ASGI application for HTTP."""

    def __init__(self, runtime: Runtime):
        self._runtime = runtime
        self._pages = get_asgi_application()

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        services = self._runtime.services
        proxy, tracing = require_service(services.proxy), services.tracing
        incoming = proxy.build_incoming(scope)
        if tracing is None or (span := start_request_span(tracing, incoming)) is None:
            await self._respond(services, proxy, incoming, receive, send)
        else:
            with span:
                await self._respond(services, proxy, incoming, receive, recording_status(span, send))

    async def _respond(self, services: Services, proxy: ProxyService, incoming: IncomingRequest, receive: Receive, send: Send) -> None:
        try:
            handler = proxy.parse_and_find_handler(incoming)
        except BadRequest as error:
            page_log = PageLog(incoming, send)
            await send_denial(
                incoming, Deny(error.status, Message("This address can't be used: %(error)s.", error=error.message)), page_log.send
            )
            page_log.emit()
            return
        if handler is RequestHandler.DATA_PLANE:
            await proxy.data_plane(incoming, receive, send)
        elif handler is RequestHandler.FORWARD_AUTH:
            await proxy.forward_auth(incoming, receive, send, partial(self._serve_page, services, RequestHandler.ROUTE_PAGES))
        elif handler in (RequestHandler.HEALTH, RequestHandler.READINESS):  # polled every few seconds, so not logged
            is_healthy = handler is RequestHandler.HEALTH or self._runtime.readiness().is_ready
            await proxy.respond(handler, incoming, send, is_healthy=is_healthy)
        else:
            await self._serve_builtin(services, handler, incoming, receive, send)

    async def _serve_builtin(
        self, services: Services, handler: RequestHandler, incoming: IncomingRequest, receive: Receive, send: Send
    ) -> None:
        proxy = require_service(services.proxy)
        page_log = PageLog(incoming, send)
        try:
            if handler in (RequestHandler.AUTHENTICATE_PAGES, RequestHandler.ROUTE_PAGES):
                await self._serve_page(services, handler, incoming, receive, page_log.send)
            else:
                await proxy.respond(handler, incoming, page_log.send)
        finally:
            page_log.emit()

    async def _serve_page(
        self, services: Services, handler: RequestHandler, incoming: IncomingRequest, receive: Receive, send: Send
    ) -> None:
        context = GatePageContext(
            services,
            self._runtime.status,
            self._runtime.provenance,
            incoming,
            handler is RequestHandler.AUTHENTICATE_PAGES,
            self._runtime.readiness,
        )
        path = incoming.request.path
        name_builtin_span(incoming.request)
        # Django gets the canonical path, so that both interpret it equally, and the scheme that the browser used, which
        # differs from gate's if a proxy terminates TLS.
        scheme = services.options.authenticate_service_url.scheme
        scope = {**incoming.scope, "path": path, "raw_path": path.encode(), "root_path": "", "scheme": scheme, "gate": context}
        limit = PAGE_BODY_BYTES
        if context.is_authenticate_host:
            limit = require_service(services.authenticate).scim_access.body_limit(path, incoming.header(b"authorization"), limit)
        try:
            await self._pages(scope, limit_body(receive, limit), send)
        except BodyTooLarge as error:
            await send_denial(incoming, denial_from_error(error), send)


def http(scope: dict[str, Any], receive: Receive, send: Send) -> Awaitable[None]:
    """Serve HTTP, and websockets of gate's listener. The scope of any other server is parsed again, strictly."""
    return gate_application(scope, receive, send) if is_from_gate_listener(scope) else other_server.serve_http(scope, receive, send)


runtime = runtime_from_settings()
gate_application = GateApplication(runtime)
other_server = ThirdPartyServer(runtime, gate_application, runtime.on_request_complete)
application = ProtocolTypeRouter({"http": http, "websocket": other_server.serve_websocket, "lifespan": other_server.serve_lifespan})


# `daphne gateproject.asgi:application` imports only this module before it creates its server.
try:
    install(runtime.listener_config(), runtime, runtime.options, partial(open_under_daphne, runtime))
except ConfigError as error:
    sys.exit(f"startup failed: {error}")
