"""Temporary access: the page to request, approve, deny and revoke it."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import structlog
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from authenticate.access_requests.access_request_service import AccessActor, format_duration
from authenticate.access_requests.requested_access import route_title
from authenticate.page_paths import ACCESS_PATH as PAGE
from authenticate.service import AuthenticateService, page_context
from authenticate.views import view_helpers
from authenticate.views.actors import actor_for
from authenticate.views.portal_pages import STYLE, portal_files
from authorize.approval_policy import may_request
from authorize.route_settings import RouteLinks
from config.routes.route import Route
from config.routes.route_access_requests import MAX_TOOL_LENGTH, REQUIRED, is_tool_name
from databroker.audit_log import AuditLogUnavailable
from databroker.grants.access_request_store import StoredAccessRequest
from databroker.grants.grant_records import MAX_REASON_LENGTH, AccessGrant, UserGrants
from databroker.grants.grant_store import AccessError
from databroker.records import SessionRecord
from foundation.errors import BrokerError
from foundation.web import pages, responses
from foundation.web.message import Message, Sentence
from foundation.web.times import time_element

log = structlog.get_logger(__name__)

METHODS = ("GET", "HEAD", "POST")
BACK = ((Message("Back to access"), PAGE),)
RETRY_LATER = Message("Press the button again in a minute.")
YOU = Message("You")
SENT = f"{PAGE}?sent=1"  # where a new access request is confirmed
MAX_LISTED = 100
HOUR = 3600
DAY = 24 * HOUR
DURATIONS = (HOUR // 4, HOUR // 2, HOUR, 2 * HOUR, 4 * HOUR, 8 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 14 * DAY, 30 * DAY)


@csrf_exempt
async def access(request: HttpRequest) -> HttpResponse:
    if request.method in METHODS and not page_context(request).authenticate.access_requests.rules:
        return responses.render_error(
            request, 404, Message("This page does not exist."), links=((Message("Your applications"), "/.gate/"),)
        )
    return await _access(request)


def _sign_in_url(request: HttpRequest) -> str:
    service = page_context(request).authenticate
    chosen = service.access_requests.route_for_link(request.GET.get("route", ""))
    if chosen is None:
        return service.browser_redirects.sign_in_url(PAGE)
    tool = _requested_tool(chosen, request)
    query = {"route": service.access_requests.links.link_id(chosen), **({"tool": tool} if tool else {})}
    return service.browser_redirects.sign_in_url(f"{PAGE}?{urlencode(query)}")


def _requested_tool(route: Route, request: HttpRequest) -> str:
    """Return the tool that the link names, "" if it is none that may be requested."""
    tool, settings = request.GET.get("tool", ""), route.access_requests
    return tool if settings is not None and is_tool_name(tool) and settings.accepts(tool) else ""


@view_helpers.requires_session(*METHODS, back=BACK, sign_in_url=_sign_in_url)
async def _access(request: HttpRequest, service: AuthenticateService, session: SessionRecord) -> HttpResponse:
    actor = await actor_for(page_context(request), session)
    if actor is None:
        reason = Message("Your session has ended, or your profile could not be loaded.")
        return responses.render_error(request, 403, reason, links=(view_helpers.SIGN_IN_AGAIN,))
    return await (_change if request.method == "POST" else _page)(request, service, actor)


async def _change(request: HttpRequest, service: AuthenticateService, actor: AccessActor) -> HttpResponse:
    """Apply a form and redirect to the page, or show an error page.  A repeated request completes a change that failed halfway."""
    try:
        await _dispatch(request, service, actor)
    except AccessError as error:
        return responses.render_error(request, error.status, Sentence("%(error)s.", error=error.message), links=BACK)
    except AuditLogUnavailable:
        reason = Message("The audit log is unavailable. Nothing was changed; try again in a minute.")
        return responses.render_error(request, 503, reason, advice=RETRY_LATER, links=BACK)
    except BrokerError as error:
        log.error("access request update failed", reason=str(error), request_id=page_context(request).request_id)
        reason = Message("The data broker is unavailable. Nothing was changed.")
        return responses.render_error(request, 503, reason, advice=RETRY_LATER, links=BACK)
    response = responses.redirect(SENT if request.POST.get("do") == "ask" else PAGE)
    response.status_code = 303
    return response


async def _dispatch(request: HttpRequest, service: AuthenticateService, actor: AccessActor) -> None:
    gate, access_requests, form = page_context(request), service.access_requests, request.POST
    id, _, nonce = form.get("request", "").partition(" ")
    match form.get("do", ""):
        case "ask" | "break_glass" as do:
            route = access_requests.route_for_link(form.get("route", ""))
            if route is None:
                raise AccessError(Message("this application does not accept access requests; nothing was changed"))
            step = access_requests.create if do == "ask" else access_requests.break_glass
            await step(actor, route, form.get("why", ""), _seconds(form.get("duration", "")), form.get("tool", "").strip())
        case "withdraw":
            await access_requests.withdraw(actor, id, nonce)
        case "refuse":
            await access_requests.deny(actor, id, nonce)
        case "approve":
            await access_requests.approve(actor, id, nonce, gate.authorize.load_session_identity)
        case "end":
            user_id, _, access_id = form.get("access", "").rpartition(" ")
            await access_requests.revoke(actor, user_id, access_id)
        case _:
            raise AccessError(Message("unknown action; nothing was changed"))


def _seconds(written: str) -> float:
    return float(written) if written.isascii() and written.isdigit() and len(written) < 9 else 0.0


async def _page(request: HttpRequest, service: AuthenticateService, actor: AccessActor) -> HttpResponse:
    access_requests, headers, now = service.access_requests, view_helpers.cookie_headers(request), service.clock()
    token, cookie = service.csrf.token_for(headers, now, bound_to=actor.session.id)
    chosen = access_requests.route_for_link(request.GET.get("route", ""))
    if chosen is not None and not may_request(chosen, actor.identity):
        chosen = None
    granted = [each async for each in access_requests.grants_visible_to(actor)]
    pending = [held async for held in access_requests.pending_for(actor)]
    requests = await access_requests.list_for(actor)
    response = responses.render_page(
        request,
        "authenticate/access.html",
        form_targets="",
        shows_times=True,
        files=portal_files(service),
        style=pages.static_path(STYLE),
        csrf=token,
        time=time_element,
        form=None if chosen is None else _form(chosen, access_requests.links, _requested_tool(chosen, request)),
        glass=_break_glass_durations(chosen) if chosen is not None and access_requests.can_break_glass(actor, chosen) else None,
        is_lost="route" in request.GET and chosen is None,
        routes=[(access_requests.links.link_id(route), route_title(route)) for route in await _requestable_routes(request, service, actor)],
        is_sent="sent" in request.GET and bool(requests),
        requests=[_request_row(held, service) for held in requests],
        pending=len(pending),
        to_review=[_request_row(held, service) for held in sorted(pending, key=lambda held: held.request.requested_at)[:MAX_LISTED]],
        more=max(0, len(pending) - MAX_LISTED),
        grants=[_grant_row(each, actor) for each in granted[:MAX_LISTED]],
        longest_why=MAX_REASON_LENGTH,
        longest_tool=MAX_TOOL_LENGTH,
    )
    return responses.with_cookies(response, [cookie] if cookie else [])


async def _requestable_routes(request: HttpRequest, service: AuthenticateService, actor: AccessActor) -> list[Route]:
    """Return the routes that the user may request and cannot open now, except those hidden in the portal."""
    gate = page_context(request)
    opened = await gate.authorize.accessible_routes(gate.incoming.request, view_helpers.cookie_headers(request))
    known = {opening.route.id for opening in opened}
    requestable = [route for route in service.access_requests.rules.routes if may_request(route, actor.identity)]
    # Tools are requested by users who may open the MCP server.
    found = [route for route in requestable if route.is_in_portal and (route.id in known) is _has_tools(route)]
    return sorted(found, key=lambda route: route_title(route).casefold())


def _has_tools(route: Route) -> bool:
    return route.access_requests is not None and bool(route.access_requests.tools)


def _form(route: Route, links: RouteLinks, tool: str) -> dict[str, Any]:
    settings = route.access_requests
    if settings is None:
        raise RuntimeError("this route does not accept access requests")
    return {
        "id": links.link_id(route),
        "words": route_title(route),
        "tool": tool,
        "needs_tool": bool(settings.tools),
        "tools": [name for name in settings.tools if "*" not in name],
        "address": route.from_.host_port,
        "needs_reason": settings.reason == REQUIRED,
        "durations": list(_durations(settings.max_duration)),
        "approvals": settings.approvals,
    }


def _break_glass_durations(route: Route) -> list[tuple[int, str]]:
    """Return the durations of emergency access, with their labels."""
    settings = route.access_requests
    return [] if settings is None or settings.break_glass is None else list(_durations(settings.break_glass.max_duration))


def _durations(maximum: timedelta) -> Iterator[tuple[int, str]]:
    max_seconds = int(maximum.total_seconds())
    for seconds in (*(each for each in DURATIONS if each < max_seconds), max_seconds):
        yield seconds, format_duration(seconds)


def _request_row(held: StoredAccessRequest, service: AuthenticateService) -> dict[str, Any]:
    access_request, route = held.request, service.access_requests.rules.route(held.request.route)
    settings = None if route is None else route.access_requests
    is_gone = settings is None or not settings.accepts(access_request.tool)
    return {
        "value": f"{held.id} {access_request.request_id}",
        "person": access_request.display_name,
        "user_id": access_request.user_id,
        "route": access_request.route_name,
        "why": access_request.reason,
        "duration": format_duration(access_request.duration_seconds),
        "asked": access_request.requested_at,
        "expires": access_request.expires_at,
        "approvers": [each.name for each in access_request.approvals],
        "needed": 0 if settings is None else settings.approvals,
        "is_gone": is_gone,
    }


def _grant_row(each: tuple[UserGrants, AccessGrant], actor: AccessActor) -> dict[str, Any]:
    held, access = each
    is_actor = actor.is_user(held.user_id, held.issuer)
    row = {"person": YOU if is_actor else held.display_name, "route": access.route_name, "why": access.reason, "by": access.granted_by}
    return {**row, "value": f"{held.user_id} {access.route_hash}", "until": access.expires_at, "is_actor": is_actor}
