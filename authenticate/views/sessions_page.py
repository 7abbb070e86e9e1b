"""Sessions page: list and end the user's sessions, and show the information shared with applications."""

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse

from authenticate.page_paths import SESSIONS_PATH
from authenticate.portal.user_sessions import MAX_LISTED, list_user_sessions, other_sessions
from authenticate.service import AuthenticateService, page_context
from authenticate.views import view_helpers
from authenticate.views.actors import count_pending_requests
from authenticate.views.oauth.account_connection import list_servers
from authenticate.views.portal_pages import STYLE, portal_files
from authenticate.views.profile import build_user_profile
from databroker.admin.record_details import format_claim
from databroker.audit_log import AuditAction, session_entry
from databroker.records import SessionRecord
from foundation.errors import BrokerError
from foundation.web import pages, responses
from foundation.web.message import Message
from foundation.web.times import time_element

PAGE = SESSIONS_PATH
BACK = ((Message("Back to your sessions"), PAGE),)
# Claims about the ID token and the sign-in, not about the user.
_TECHNICAL = frozenset(
    (
        "acr",
        "amr",
        "aud",
        "auth_time",
        "azp",
        "exp",
        "iat",
        "iss",
        "jti",
        "nbf",
        "s_hash",
        "sid",
        "sub",
        "updated_at",
        "typ",
        "session_state",
    )
)


@view_helpers.requires_session(
    "GET", "HEAD", "POST", back=BACK, sign_in_url=lambda request: page_context(request).authenticate.browser_redirects.sign_in_url(PAGE)
)
async def sessions(request: HttpRequest, service: AuthenticateService, session: SessionRecord) -> HttpResponse:
    return await (_end if request.method == "POST" else _page)(request, service, session)


async def _end(request: HttpRequest, service: AuthenticateService, session: SessionRecord) -> HttpResponse:
    """End one session, or all but this one.  Another user's session is reported as not found."""
    if "end_others" in request.POST:
        chosen = await other_sessions(service.sessions, session, service.clock())
    else:
        found = await service.sessions.get_for_same_user(session, request.POST.get("end", ""), service.clock())
        if found is None:
            reason = Message("Session not found; nothing was changed. It may have ended already.")
            return responses.render_error(request, 404, reason, links=BACK)
        if found.id in (session.id, *session.linked_session_ids):
            return responses.redirect("/.gate/signout/")  # which asks for confirmation, and clears the cookies
        chosen = [found]
    ended = 0
    try:
        for each in chosen:
            await _end_session(request, service, session, each)
            ended += 1
    except BrokerError:
        if not ended:
            raise
        reason = Message(
            "The data broker is unavailable: %(ended)s of %(all)s sessions were ended. The rest are still active.",
            ended=ended,
            all=len(chosen),
        )
        return responses.render_error(request, 503, reason, advice=Message("Press the button again in a minute."), links=BACK)
    response = responses.redirect(PAGE)
    response.status_code = 303
    return response


async def _end_session(request: HttpRequest, service: AuthenticateService, session: SessionRecord, chosen: SessionRecord) -> None:
    gate = page_context(request)
    action: str = AuditAction.END_SESSION
    try:
        await service.sessions.end(chosen)
        if chosen.agent is not None:  # the client asks again, instead of returning without a page
            await service.consents.forget(chosen, chosen.agent.client_id, chosen.agent.resource)
    except BrokerError:
        action = AuditAction.END_SESSION.failure
        raise
    finally:
        await service.audit_writer.enqueue(
            session_entry(service.clock(), session, gate.options.providers, gate.client_address, action, chosen)
        )


async def _page(request: HttpRequest, service: AuthenticateService, session: SessionRecord) -> HttpResponse:
    headers, now = view_helpers.cookie_headers(request), service.clock()
    token, cookie = service.csrf.token_for(headers, now, bound_to=session.id)
    profile = await build_user_profile(service, session)
    listed = await list_user_sessions(service.sessions, service.broker, session, now)
    claims, technical = _claims(profile["claims"])
    response = responses.render_page(
        request,
        "authenticate/sessions.html",
        form_targets="",
        shows_times=True,
        files=portal_files(service),
        style=pages.static_path(STYLE),
        sessions=[each for each in listed if each.agent is None],
        agents=[each for each in listed if each.agent is not None],
        servers=await list_servers(request, service, session),
        pending=await count_pending_requests(page_context(request), session),
        profile=profile,
        shared=_shared_claims(service, profile),
        claims=claims,
        technical=technical,
        csrf=token,
        limit=MAX_LISTED,
        time=time_element,
    )
    return responses.with_cookies(response, [cookie] if cookie else [])


def _shared_claims(service: AuthenticateService, profile: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what applications may receive: the assertion's claims about the user, and those of `jwt_claims_headers`."""
    user, claims = profile["user"], profile["claims"]
    shared: dict[str, str] = {
        Message("Your id"): profile["released"]["id"],
        Message("Your name"): user["name"] or Message("unknown"),
        Message("Your e-mail address"): profile["released"]["email"]
        or Message("not shared: the address is not verified, or its domain is not allowed for your identity provider"),
        Message("Your groups"): ", ".join(group["name"] for group in profile["groups"]) or Message("none"),
    }
    for name in service.options.jwt_claims_headers:
        if name in claims and name not in ("sub", "user", "name", "email", "groups"):
            shared[name] = format_claim(name, claims[name])
    return list(shared.items())


def _claims(all_claims: Mapping[str, Any]) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return claims about the user, and technical claims."""
    about: list[tuple[str, str]] = []
    technical: list[tuple[str, str]] = []
    for name, value in all_claims.items():
        (technical if name in _TECHNICAL else about).append((name, format_claim(name, value)))
    return about, technical
