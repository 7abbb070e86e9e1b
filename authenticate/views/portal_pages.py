"""Portal of the signed-in person: the applications that they may open, who they are, and the buttons that end the session."""

from typing import Any
from urllib.parse import urlsplit

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from authenticate.portal import preferences
from authenticate.portal.applications import Application
from authenticate.portal.icons import PATH as ICONS
from authenticate.portal.portal import MAX_SEARCH_LENGTH, Applications
from authenticate.service import AuthenticateService, page_context
from authenticate.views import view_helpers
from authenticate.views.actors import pending_requests
from authenticate.views.profile import described_person
from config.fields.image import PNG
from databroker.records import SessionRecord
from foundation.errors import BrokerError
from foundation.web import pages, responses
from foundation.web.message import Message
from foundation.web.times import time_element

PAGE, CHANGE = "/.gate/", "/.gate/portal"
BACK = ((Message("Back"), PAGE),)
SCRIPT, STYLE = "portal.js", "portal.css"
LONGEST_PROVIDER = 32  # characters of an id
LONGEST_NUMBER = 6  # digits of a page's number


def _sign_in_url(request: HttpRequest) -> str:
    """URL of the sign-in, at the provider that a link to this page names, for the page of sign-in to judge."""
    named = request.GET.get("gate_idp", "")
    return page_context(request).authenticate.redirects.sign_in_url(
        PAGE, **({"gate_idp": named} if 0 < len(named) <= LONGEST_PROVIDER else {})
    )


@view_helpers.requires_session(
    "GET", "HEAD", back=BACK, sign_in_url=lambda request: "" if view_helpers.wants_json(request) else _sign_in_url(request)
)
async def portal(request: HttpRequest, service: AuthenticateService, session: SessionRecord) -> HttpResponse:
    if view_helpers.wants_json(request):
        return responses.json_page(await described_person(service, session))
    shown, search = await _applications(request, session), request.GET.get("q", "")[:MAX_SEARCH_LENGTH]
    headers = view_helpers.cookie_headers(request)
    token, cookie = service.csrf.token_for(headers, service.clock(), bound_to=session.id)
    person = await described_person(service, session)
    response = responses.page(
        request,
        "authenticate/portal.html",
        form_targets="",
        shows_times=True,
        files=portal_files(service),
        style=pages.static_path(STYLE),
        script=pages.static_path(SCRIPT),
        page=await service.portal.page(shown, search, _number(request.GET.get("page", "")), responses.language()),
        recent=() if search else shown.recent,
        count=len(shown.all),
        search=search,
        person=person,
        csrf=token,
        time=time_element,
        pending=await pending_requests(page_context(request), session),
        administers=await _administers(request, headers),
    )
    return responses.with_cookies(response, [cookie] if cookie else [])


@view_helpers.requires_session("GET", "HEAD", back=BACK)
async def portal_json(request: HttpRequest, service: AuthenticateService, session: SessionRecord) -> HttpResponse:
    """The applications for programs that show them elsewhere, in the order of the page."""
    shown = await _applications(request, session)
    favourites = {each.id for each in shown.favourites}
    return responses.json_page(
        {
            "applications": [{**_described(each), "favourite": each.id in favourites} for each in shown.all],
            "recent": [each.key for each in shown.recent],
        }
    )


@view_helpers.requires_session("POST", back=BACK)
async def change_portal(request: HttpRequest, service: AuthenticateService, session: SessionRecord) -> HttpResponse:
    """Make an application a favourite or none any more, or note that it was opened.  One that is not listed is none to anybody."""
    wanted = request.POST.get("favourite", "") or request.POST.get("opened", "")
    found = (await _applications(request, session)).find(wanted)
    if found is None:
        reason = Message("Application not found; nothing was changed.")
        return responses.error_page(request, 404, reason, links=BACK)
    edit = preferences.toggle_favourite if "favourite" in request.POST else preferences.record_opened
    await preferences.update_preferences(service.broker, session, edit, found.key, service.clock())
    if "favourite" not in request.POST:
        return responses.finished(HttpResponse(status=204))
    response = responses.redirect(f"{PAGE}#a-{found.id}")
    response.status_code = 303
    return response


@view_helpers.requires_session("GET", "HEAD", back=BACK, sign_in_url=_sign_in_url)
async def why(request: HttpRequest, service: AuthenticateService, session: SessionRecord) -> HttpResponse:
    """Why somebody can't see what they look for.  Only what is listed for them is looked at: of all else it says the same, there or not."""
    wanted = " ".join(request.GET.get("address", "")[:MAX_SEARCH_LENGTH].split())
    person = (await described_person(service, session))["user"]
    return responses.page(
        request,
        "authenticate/why.html",
        files=portal_files(service),
        style=pages.static_path(STYLE),
        shows_times=True,
        pending=await pending_requests(page_context(request), session),
        wanted=wanted,
        found=_looked_up(await _applications(request, session), wanted),
        person=person["email"] or person["name"] or person["id"],
        now=time_element(service.clock(), "long"),
    )


@require_safe
async def icon(request: HttpRequest, name: str) -> HttpResponse:
    found = page_context(request).authenticate.portal.icons.find(name)
    if found is None:
        return responses.error_page(request, 404, Message("This page does not exist."))
    response = HttpResponse(found.content, content_type=found.media_type)
    response.headers["Cache-Control"] = "private, max-age=604800, immutable"
    # Opened as a page of its own, a picture is nothing but one.
    response.headers["Content-Security-Policy"] = "default-src 'none'; sandbox; frame-ancestors 'none'"
    response.headers["Content-Disposition"] = f'inline; filename="icon.{"png" if found.media_type == PNG else "svg"}"'
    return responses.finished(response)


def _number(said: str) -> int:
    return int(said) if said.isdecimal() and len(said) <= LONGEST_NUMBER else 1


def portal_files(service: AuthenticateService) -> pages.PageFiles:
    origin = service.origin
    return pages.PageFiles(
        script=f"{origin}{pages.STATIC_PATH}{SCRIPT}",
        style=f"{origin}{pages.STATIC_PATH}{STYLE}",
        icons=f"{origin}{ICONS}",
        target=f"{origin}{CHANGE}",
    )


async def _applications(request: HttpRequest, session: SessionRecord) -> Applications:
    gate = page_context(request)
    return await gate.authenticate.portal.applications(gate.authorize, gate.incoming.request, view_helpers.cookie_headers(request), session)


def _described(shown: Application) -> dict[str, Any]:
    return {
        "title": shown.title,
        "description": shown.description,
        "category": shown.category,
        "url": shown.url or shown.key,
        "tunnel_command": shown.command,
        "requires_step_up": shown.needs_step_up,
        "partial_access": shown.has_partial_access,
    }


def _looked_up(shown: Applications, wanted: str) -> list[Application]:
    """Listed applications that were meant by an address, or by words."""
    try:
        host = urlsplit(wanted if "://" in wanted else f"https://{wanted}").hostname
    except ValueError:
        host = None
    at_host = [each for each in shown.all if wanted and host and urlsplit(each.key).hostname == host]
    words = wanted.casefold().split()
    return at_host or [each for each in shown.all if words and each.matches(words)][:10]


async def _administers(request: HttpRequest, headers: list[bytes]) -> bool:
    """Whether to show the link to the admin, which asks for itself."""
    gate = page_context(request)
    if not (gate.options.admin_allowed_users or gate.options.admin_allowed_groups):
        return False
    try:
        identity = await gate.authorize.identify(headers, gate.authenticate.host_port)
    except BrokerError:
        return False
    return identity is not None and gate.authorize.may_administer(identity)
