"""Temporary access: the page to request, approve, deny and revoke it."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import structlog
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from authenticate.access_requests.access_request_service import AccessActor, format_duration, route_title
from authenticate.page_paths import ACCESS_PATH as PAGE
from authenticate.service import AuthenticateService, page_context
from authenticate.views import view_helpers
from authenticate.views.actors import caller_of
from authenticate.views.portal_pages import STYLE, portal_files
from authorize.approval_policy import may_request
from authorize.route_settings import RouteLinks
from config.routes.route import Route
from config.routes.route_access_requests import REQUIRED
from databroker.audit_log import AuditLogAway
from databroker.grants.grant_records import LONGEST_WHY, TemporaryAccess, TemporaryAccessRecord
from databroker.grants.grant_store import AccessError
from databroker.grants.request_store import HeldRequest
from databroker.records import SessionRecord
from foundation.errors import BrokerError
from foundation.web import pages, responses
from foundation.web.message import Message, Sentence
from foundation.web.times import time_element

log = structlog.get_logger(__name__)

METHODS = ("GET", "HEAD", "POST")
BACK = ((Message("Back to access"), PAGE),)
AGAIN = Message("Press the button again in a minute.")
YOU = Message("You")
SENT = f"{PAGE}?sent=1"  # where a new access request is confirmed
MOST_SHOWN = 100
HOUR = 3600
DAY = 24 * HOUR
DURATIONS = (HOUR // 4, HOUR // 2, HOUR, 2 * HOUR, 4 * HOUR, 8 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 14 * DAY, 30 * DAY)


@csrf_exempt
async def access(request: HttpRequest) -> HttpResponse:
    if request.method in METHODS and not page_context(request).authenticate.access.rules:
        return responses.error_page(request, 404, Message("This page does not exist."), links=((Message("Your applications"), "/.gate/"),))
    return await _access(request)


def _sign_in_url(request: HttpRequest) -> str:
    service = page_context(request).authenticate
    chosen = service.access.route_for_link(request.GET.get("route", ""))
    return service.redirects.sign_in_url(PAGE if chosen is None else f"{PAGE}?route={service.access.links.link_id(chosen)}")


@view_helpers.requires_session(*METHODS, back=BACK, sign_in_url=_sign_in_url)
async def _access(request: HttpRequest, service: AuthenticateService, session: SessionRecord) -> HttpResponse:
    caller = await caller_of(page_context(request), session)
    if caller is None:
        reason = Message("Your session has ended, or your profile could not be loaded.")
        return responses.error_page(request, 403, reason, links=(view_helpers.SIGN_IN_AGAIN,))
    return await (_change if request.method == "POST" else _page)(request, service, caller)


async def _change(request: HttpRequest, service: AuthenticateService, caller: AccessActor) -> HttpResponse:
    """Do what a button says; BrokerError leaves a page of its own, and nothing half done that another try would not finish."""
    try:
        await _do(request, service, caller)
    except AccessError as error:
        return responses.error_page(request, error.status, Sentence("%(error)s.", error=error.message), links=BACK)
    except AuditLogAway:
        reason = Message("The audit log is unavailable. Nothing was changed; try again in a minute.")
        return responses.error_page(request, 503, reason, advice=AGAIN, links=BACK)
    except BrokerError as error:
        log.error("access request update failed", reason=str(error), request_id=page_context(request).request_id)
        reason = Message("The data broker is unavailable. Nothing was changed.")
        return responses.error_page(request, 503, reason, advice=AGAIN, links=BACK)
    response = responses.redirect(SENT if request.POST.get("do") == "ask" else PAGE)
    response.status_code = 303
    return response


async def _do(request: HttpRequest, service: AuthenticateService, caller: AccessActor) -> None:
    gate, desk, sent = page_context(request), service.access, request.POST
    id, _, nonce = sent.get("request", "").partition(" ")
    match sent.get("do", ""):
        case "ask" | "break_glass" as do:
            route = desk.route_for_link(sent.get("route", ""))
            if route is None:
                raise AccessError(Message("this application does not accept access requests; nothing was changed"))
            step = desk.create if do == "ask" else desk.break_glass
            await step(caller, route, sent.get("why", ""), _seconds(sent.get("duration", "")))
        case "withdraw":
            await desk.withdraw(caller, id, nonce)
        case "refuse":
            await desk.deny(caller, id, nonce)
        case "approve":
            await desk.approve(caller, id, nonce, gate.authorize.load_session_identity)
        case "end":
            user_id, _, access_id = sent.get("access", "").rpartition(" ")
            await desk.revoke(caller, user_id, access_id)
        case _:
            raise AccessError(Message("unknown action; nothing was changed"))


def _seconds(written: str) -> float:
    return float(written) if written.isascii() and written.isdigit() and len(written) < 9 else 0.0


async def _page(request: HttpRequest, service: AuthenticateService, caller: AccessActor) -> HttpResponse:
    desk, headers, now = service.access, view_helpers.cookie_headers(request), service.clock()
    token, cookie = service.csrf.token_for(headers, now, bound_to=caller.session.id)
    chosen = desk.route_for_link(request.GET.get("route", ""))
    if chosen is not None and not may_request(chosen, caller.identity):
        chosen = None
    granted = [each async for each in desk.grants_visible_to(caller)]
    pending = [held async for held in desk.pending_for(caller)]
    requests = await desk.list_for(caller)
    response = responses.page(
        request,
        "authenticate/access.html",
        form_targets="",
        shows_times=True,
        files=portal_files(service),
        style=pages.static_path(STYLE),
        csrf=token,
        time=time_element,
        form=None if chosen is None else _form(chosen, desk.links),
        glass=_glass(chosen) if chosen is not None and desk.can_break_glass(caller, chosen) else None,
        is_lost="route" in request.GET and chosen is None,
        routes=[(desk.links.link_id(route), route_title(route)) for route in await _askable(request, service, caller)],
        is_sent="sent" in request.GET and bool(requests),
        requests=[_waits(held, service) for held in requests],
        pending=len(pending),
        to_review=[_waits(held, service) for held in sorted(pending, key=lambda held: held.asked.asked)[:MOST_SHOWN]],
        more=max(0, len(pending) - MOST_SHOWN),
        grants=[_has(each, caller) for each in granted[:MOST_SHOWN]],
        longest_why=LONGEST_WHY,
    )
    return responses.with_cookies(response, [cookie] if cookie else [])


async def _askable(request: HttpRequest, service: AuthenticateService, caller: AccessActor) -> list[Route]:
    """Routes that may be asked for by who can't open them now; those that are hidden in the portal are hidden here, too."""
    gate = page_context(request)
    opened = await gate.authorize.accessible_routes(gate.incoming.request, view_helpers.cookie_headers(request))
    known = {opening.route.id for opening in opened}
    requestable = [route for route in service.access.rules.routes if may_request(route, caller.identity)]
    found = [route for route in requestable if route.is_in_portal and route.id not in known]
    return sorted(found, key=lambda route: route_title(route).casefold())


def _form(route: Route, links: RouteLinks) -> dict[str, Any]:
    asking = route.access_requests
    if asking is None:
        raise RuntimeError("this route does not accept access requests")
    return {
        "id": links.link_id(route),
        "words": route_title(route),
        "address": route.from_.host_port,
        "needs_reason": asking.reason == REQUIRED,
        "durations": list(_durations(asking.max_duration)),
        "approvals": asking.approvals,
    }


def _glass(route: Route) -> list[tuple[int, str]]:
    """For how long somebody may let themselves in."""
    asking = route.access_requests
    return [] if asking is None or asking.break_glass is None else list(_durations(asking.break_glass.max_duration))


def _durations(lasts: timedelta) -> Iterator[tuple[int, str]]:
    longest = int(lasts.total_seconds())
    for seconds in (*(each for each in DURATIONS if each < longest), longest):
        yield seconds, format_duration(seconds)


def _waits(held: HeldRequest, service: AuthenticateService) -> dict[str, Any]:
    asked, route = held.asked, service.access.rules.route(held.asked.route)
    asking = None if route is None else route.access_requests
    return {
        "value": f"{held.id} {asked.nonce}",
        "person": asked.person,
        "user_id": asked.user_id,
        "route": asked.route_name,
        "why": asked.why,
        "duration": format_duration(asked.duration),
        "asked": asked.asked,
        "expires": asked.expires,
        "approvers": [each.name for each in asked.approvals],
        "needed": 0 if asking is None else asking.approvals,
        "is_gone": route is None,
    }


def _has(each: tuple[TemporaryAccessRecord, TemporaryAccess], caller: AccessActor) -> dict[str, Any]:
    held, access = each
    is_own = caller.is_user(held.user_id, held.issuer)
    said = {"person": YOU if is_own else held.person, "route": access.route_name, "why": access.why, "by": access.by}
    return {**said, "value": f"{held.user_id} {access.place}", "until": access.until, "is_own": is_own}
