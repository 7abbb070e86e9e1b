"""Built-in pages, which work even if nothing else does: health, readiness, robots.txt and redirects."""

from config.options import Options
from foundation.web.asgi_types import Send
from foundation.web.message import Message
from proxy.incoming_request import IncomingRequest
from proxy.reserved_paths import RequestHandler
from proxy.responses.denials import UNKNOWN_ADDRESS
from proxy.responses.renderer import send_denial, send_redirect, send_text
from proxy.verdict import Deny

ROBOTS = "User-agent: *\nDisallow: /"


async def respond(handler: RequestHandler, incoming: IncomingRequest, options: Options, send: Send, *, is_healthy: bool = True) -> None:
    """Send a built-in page.  Health checks report `is_healthy` without a reason, because they are unauthenticated."""
    path = incoming.request.path
    if handler is RequestHandler.NOT_FOUND:
        await send_denial(incoming, UNKNOWN_ADDRESS, send)
        return
    if incoming.request.method not in ("GET", "HEAD"):
        await send_denial(
            incoming, Deny(405, Message("%(path)s answers GET and HEAD only.", path=path), extra_headers=[(b"allow", b"GET, HEAD")]), send
        )
        return
    match handler:
        case RequestHandler.HEALTH | RequestHandler.READINESS:
            healthy_text, unhealthy_text = ("OK\n", "") if handler is RequestHandler.HEALTH else ("ready\n", "not ready\n")
            await send_text(incoming, send, 200 if is_healthy else 503, healthy_text if is_healthy else unhealthy_text, no_store=True)
        case RequestHandler.ROBOTS:
            await send_text(incoming, send, 200, ROBOTS, content_type="text/plain; charset=utf-8")
        case RequestHandler.SLASH_REDIRECT:
            await send_redirect(incoming, send, f"{path}/", status=301)
        case RequestHandler.PORTAL_REDIRECT:
            await send_redirect(incoming, send, f"{options.authenticate_service_url.origin}/.gate/")
