"""Portal pages: accessible applications, profile, sign-out buttons, icons, and the access check."""

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
from authenticate.views.actors import count_pending_requests
from authenticate.views.profile import build_user_profile
from config.fields.image import PNG
from databroker.records import SessionRecord
from foundation.errors import BrokerError
from foundation.web import pages, responses
from foundation.web.message import Message
from foundation.web.times import time_element

PAGE, CHANGE = "/.gate/", "/.gate/portal"
BACK = ((Message("Back"), PAGE),)
SCRIPT, STYLE = "portal.js", "portal.css"
MAX_PROVIDER_ID_LENGTH = 32  # of an id
MAX_PAGE_DIGITS = 6  # of a page number


def _sign_in_url(request: HttpRequest) -> str:
    """Return the sign-in URL, with the provider that the link names.  The sign-in page validates it."""
    named = request.GET.get("gate_idp", "")
    return page_context(request).authenticate.browser_redirects.sign_in_url(
        PAGE, **({"gate_idp": named} if 0 < len(named) <= MAX_PROVIDER_ID_LENGTH else {})
    )


@view_helpers.requires_session(
    "GET", "HEAD", back=BACK, sign_in_url=lambda request: "" if view_helpers.wants_json(request) else _sign_in_url(request)
)
async def portal(request: HttpRequest, service: AuthenticateService, session: SessionRecord) -> HttpResponse:
    if view_helpers.wants_json(request):
        return responses.json_response(await build_user_profile(service, session))
    applications, search = await _applications(request, session), request.GET.get("q", "")[:MAX_SEARCH_LENGTH]
    headers = view_helpers.cookie_headers(request)
    token, cookie = service.csrf.token_for(headers, service.clock(), bound_to=session.id)
    profile = await build_user_profile(service, session)
    response = responses.render_page(
        request,
        "authenticate/portal.html",
        form_targets="",
        shows_times=True,
        files=portal_files(service),
        style=pages.static_path(STYLE),
        script=pages.static_path(SCRIPT),
        page=await service.portal.page(
            applications,
            search,
            _parse_page_number(request.GET.get("page", "")),
            responses.current_language(),
            await service.connections.states(session),
        ),
        recent=() if search else applications.recent,
        count=len(applications.all),
        search=search,
        profile=profile,
        csrf=token,
        time=time_element,
        pending=await count_pending_requests(page_context(request), session),
        administers=await _may_administer(request, headers),
    )
    return responses.with_cookies(response, [cookie] if cookie else [])


@view_helpers.requires_session("GET", "HEAD", back=BACK)
async def portal_json(request: HttpRequest, service: AuthenticateService, session: SessionRecord) -> HttpResponse:
    """Return the applications as JSON in the order of the page, for other dashboards."""
    applications = await _applications(request, session)
    favourites, connections = {each.id for each in applications.favourites}, await service.connections.states(session)
    return responses.json_response(
        {
            "applications": [
                {**_to_json(each), "connection": connections.get(each.mcp_url), "favourite": each.id in favourites}
                for each in applications.all
            ],
            "recent": [each.key for each in applications.recent],
        }
    )


@view_helpers.requires_session("POST", back=BACK)
async def change_portal(request: HttpRequest, service: AuthenticateService, session: SessionRecord) -> HttpResponse:
    """Toggle a favourite, or record that an application was opened.  An application that is not listed for the user is 404."""
    search_text = request.POST.get("favourite", "") or request.POST.get("opened", "")
    found = (await _applications(request, session)).find(search_text)
    if found is None:
        reason = Message("Application not found; nothing was changed.")
        return responses.render_error(request, 404, reason, links=BACK)
    edit = preferences.toggle_favourite if "favourite" in request.POST else preferences.record_opened
    await preferences.update_preferences(service.broker, session, edit, found.key, service.clock())
    if "favourite" not in request.POST:
        return responses.finalize(HttpResponse(status=204))
    response = responses.redirect(f"{PAGE}#a-{found.id}")
    response.status_code = 303
    return response


@view_helpers.requires_session("GET", "HEAD", back=BACK, sign_in_url=_sign_in_url)
async def why(request: HttpRequest, service: AuthenticateService, session: SessionRecord) -> HttpResponse:
    """Check access to an application.  Only listed applications are searched, so the page does not disclose others."""
    search_text = " ".join(request.GET.get("address", "")[:MAX_SEARCH_LENGTH].split())
    user = (await build_user_profile(service, session))["user"]
    return responses.render_page(
        request,
        "authenticate/why.html",
        files=portal_files(service),
        style=pages.static_path(STYLE),
        shows_times=True,
        pending=await count_pending_requests(page_context(request), session),
        search_text=search_text,
        found=_find_applications(await _applications(request, session), search_text),
        user=user["email"] or user["name"] or user["id"],
        now=time_element(service.clock(), "long"),
    )


@require_safe
async def icon(request: HttpRequest, name: str) -> HttpResponse:
    found = page_context(request).authenticate.portal.icons.find(name)
    if found is None:
        return responses.render_error(request, 404, Message("This page does not exist."))
    response = HttpResponse(found.content, content_type=found.media_type)
    response.headers["Cache-Control"] = "private, max-age=604800, immutable"
    # So that an SVG that is opened as a page can run nothing.
    response.headers["Content-Security-Policy"] = "default-src 'none'; sandbox; frame-ancestors 'none'"
    response.headers["Content-Disposition"] = f'inline; filename="icon.{"png" if found.media_type == PNG else "svg"}"'
    return responses.finalize(response)


def _parse_page_number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) <= MAX_PAGE_DIGITS else 1


def portal_files(service: AuthenticateService) -> pages.PageAssets:
    origin = service.origin
    return pages.PageAssets(
        script=f"{origin}{pages.STATIC_PATH}{SCRIPT}",
        style=f"{origin}{pages.STATIC_PATH}{STYLE}",
        icons=f"{origin}{ICONS}",
        target=f"{origin}{CHANGE}",
    )


async def _applications(request: HttpRequest, session: SessionRecord) -> Applications:
    gate = page_context(request)
    return await gate.authenticate.portal.applications(gate.authorize, gate.incoming.request, view_helpers.cookie_headers(request), session)


def _to_json(applications: Application) -> dict[str, Any]:
    return {
        "title": applications.title,
        "description": applications.description,
        "category": applications.category,
        "url": applications.url or applications.key,
        "tunnel_command": applications.command,
        "mcp_url": applications.mcp_url,
        "requires_step_up": applications.needs_step_up,
        "partial_access": applications.has_partial_access,
    }


def _find_applications(applications: Applications, search_text: str) -> list[Application]:
    """Return listed applications that match an address, or all terms of a text."""
    try:
        host = urlsplit(search_text if "://" in search_text else f"https://{search_text}").hostname
    except ValueError:
        host = None
    at_host = [each for each in applications.all if search_text and host and urlsplit(each.key).hostname == host]
    terms = search_text.casefold().split()
    return at_host or [each for each in applications.all if terms and each.matches(terms)][:10]


async def _may_administer(request: HttpRequest, headers: list[bytes]) -> bool:
    """Return whether to show the link to the admin.  The admin checks access itself."""
    gate = page_context(request)
    if not (gate.options.admin_allowed_users or gate.options.admin_allowed_groups):
        return False
    try:
        identity = await gate.authorize.identify(headers, gate.authenticate.host_port)
    except BrokerError:
        return False
    return identity is not None and gate.authorize.may_administer(identity)
