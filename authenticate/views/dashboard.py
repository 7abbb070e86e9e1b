"""Dashboard of the signed-in person: identity, groups, session, and the button that ends it."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from authenticate.page_context import page_context
from authenticate.service import AuthenticateService
from authenticate.views import answers
from databroker.adminsite.details import claim_text
from databroker.claims import groups_in
from databroker.records import DIRECTORY_GROUP, DIRECTORY_USER, USER, DirectoryGroup, SessionRecord
from databroker.session_reader import group_of, person_of, user_of
from foundation import responses
from foundation.errors import BrokerError
from foundation.times import time_element

MAX_GROUPS = 200
# They tie tokens together and tell a person nothing.
_HIDDEN_CLAIMS = frozenset({"nonce", "at_hash", "c_hash"})


@require_safe
@answers.errors_as_pages
async def dashboard(request: HttpRequest) -> HttpResponse:
    service = page_context(request).authenticate
    now = service.clock()
    headers = answers.cookie_headers(request)
    session = await service.sessions.find(headers, service.host_port, now)
    if session is None:
        if answers.wants_json(request):
            return responses.error_page(request, 401, "You are not signed in.")
        return responses.redirect(service.sign_in_url_for("/.gate/"))
    person = await _person(service, session)
    if answers.wants_json(request):
        return responses.json_page(person)
    token, cookie = service.csrf.token_for(headers, now, bound_to=session.id)
    response = responses.page(
        "authenticate/dashboard.html",
        form_targets="",
        shows_times=True,
        person=person,
        claims=_rows(person["claims"]),
        csrf=token,
        time=time_element,
        administers=await _administers(request, headers),
    )
    return responses.with_cookies(response, [cookie] if cookie else [])


async def _person(service: AuthenticateService, session: SessionRecord) -> dict[str, Any]:
    record = await service.broker.get(USER, session.user_id)
    user = user_of(session, record)
    return {
        "user": {"id": user.id, "name": user.name, "email": user.email, "email_verified": user.email_verified},
        "groups": await _groups(service, session),
        "session": {"id": session.id, "provider": session.provider, "issued": session.issued, "expires": session.expires},
        "claims": {name: value for name, value in sorted(session.claims.items()) if name not in _HIDDEN_CLAIMS},
    }


async def _groups(service: AuthenticateService, session: SessionRecord) -> list[dict[str, str]]:
    person = person_of(session, await service.broker.get(DIRECTORY_USER, session.user_id))
    from_directory = person.group_ids if person is not None else ()
    from_claims = groups_in(session.claims, service.provider_client.provider.groups_claim)
    groups = []
    for group_id in list(dict.fromkeys([*from_directory, *from_claims]))[:MAX_GROUPS]:
        group = group_of(session, await service.broker.get(DIRECTORY_GROUP, group_id)) or DirectoryGroup(group_id)
        groups.append({"id": group.id, "name": group.name or group.id, "email": group.email})
    return groups


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


def _rows(claims: dict[str, Any]) -> list[tuple[str, str]]:
    return [(name, claim_text(name, value)) for name, value in claims.items()]
