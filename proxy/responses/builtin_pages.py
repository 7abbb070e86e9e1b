"""Pages of ours that every host has and that work while nothing else does: health, robots.txt, redirects."""

from config.options import Options
from foundation.web.asgi_types import Send
from foundation.web.message import Message
from proxy.incoming_request import IncomingRequest
from proxy.reserved_paths import Owner
from proxy.responses.denials import UNKNOWN_ADDRESS
from proxy.responses.renderer import send_redirect, send_refusal, send_text
from proxy.verdict import Refuse

ROBOTS = "User-agent: *\nDisallow: /"


async def answer(owner: Owner, incoming: IncomingRequest, options: Options, send: Send, *, is_well: bool = True) -> None:
    """Answer; `is_well` is what a question about our health gets, and no more: who asks here may be anybody."""
    path = incoming.request.path
    if owner is Owner.NOTHING:
        await send_refusal(incoming, UNKNOWN_ADDRESS, send)
        return
    if incoming.request.method not in ("GET", "HEAD"):
        await send_refusal(
            incoming, Refuse(405, Message("%(path)s answers GET and HEAD only.", path=path), more=[(b"allow", b"GET, HEAD")]), send
        )
        return
    match owner:
        case Owner.HEALTH | Owner.READINESS:
            good, bad = ("OK\n", "") if owner is Owner.HEALTH else ("ready\n", "not ready\n")
            await send_text(incoming, send, 200 if is_well else 503, good if is_well else bad, is_for_now=True)
        case Owner.ROBOTS:
            await send_text(incoming, send, 200, ROBOTS, content_type="text/plain; charset=utf-8")
        case Owner.ADD_SLASH:
            await send_redirect(incoming, send, f"{path}/", status=301)
        case Owner.TO_DASHBOARD:
            await send_redirect(incoming, send, f"{options.authenticate_service_url.origin}/.gate/")
