"""Helpers of the views: raw cookies, session and CSRF checks, the limit on sign-ins, and error pages."""

import functools
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import structlog
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.views.decorators.csrf import csrf_exempt

from authenticate.service import AuthenticateService, page_context
from databroker.records import SessionRecord
from foundation.client_network import client_network
from foundation.crypto.csrf_token import FIELD, HEADER
from foundation.errors import BadRequest, ProviderError
from foundation.telemetry import metrics
from foundation.web.languages import preferred_media_type
from foundation.web.message import Message, Sentence
from foundation.web.pages import Links
from foundation.web.responses import redirect, render_error

log = structlog.get_logger(__name__)

View = Callable[..., Awaitable[HttpResponse]]
SignedInView = Callable[[HttpRequest, AuthenticateService, SessionRecord], Awaitable[HttpResponse]]
SIGN_IN_AGAIN = (Message("Sign in again"), "/.gate/")
NOT_SIGNED_IN = Message("You are not signed in.")
EXPIRED = Message("This page has expired; nothing was changed. Reload it and try again.")
START_AGAIN = Message("Start again.")
TRY_AGAIN = Message("Try again")


def cookie_headers(request: HttpRequest) -> list[bytes]:
    """Return the raw Cookie headers, because Django keeps only one of several cookies with the same name."""
    return [value for name, value in request.scope["headers"] if name == b"cookie"]


async def get_session(request: HttpRequest) -> SessionRecord | None:
    """Return the live session of the browser that sends this request."""
    service = page_context(request).authenticate
    return await service.sessions.find(cookie_headers(request), service.host_port, service.clock())


def has_valid_csrf_token(request: HttpRequest, service: AuthenticateService, session: SessionRecord) -> bool:
    """Return whether the request has a CSRF token bound to this session, in a form field or a header."""
    token = request.headers.get(HEADER, "") or request.POST.get(FIELD, "")
    return service.csrf.check(token, cookie_headers(request), service.clock(), bound_to=session.id)


def wants_json(request: HttpRequest) -> bool:
    return preferred_media_type(request.headers.get("Accept", "")) == "json"


def provider_error_page(request: HttpRequest, error: Exception, retry_url: str) -> HttpResponse:
    log.error("sign-in failed at the identity provider", error=str(error), request_id=page_context(request).request_id)
    response = render_error(
        request,
        503,
        Message("Sign-in is temporarily unavailable: the identity provider is not responding."),
        advice=Message(
            "If you are already signed in, nothing changes. Otherwise try again in a minute. "
            "If the problem continues, contact your administrator and include the request id below."
        ),
        links=((TRY_AGAIN, retry_url),),
    )
    response.headers["Retry-After"] = "30"
    return response


class TooManySignIns(ProviderError):
    """The limit on sign-ins that wait for the provider is reached, in total or for this network."""


@contextmanager
def sign_in_slot(request: HttpRequest, provider: str) -> Iterator[None]:
    """Hold a slot for a request to this provider.  An unconfigured provider needs none.

    Each network has a share, because any client can start sign-ins and send invalid codes, and each holds a connection while the
    provider is slow.  Raises TooManySignIns.
    """
    gate = page_context(request)
    slots, network = gate.authenticate.provider_slots.get(provider), client_network(gate.client_address)
    if slots is None:
        yield
        return
    if not slots.acquire(network):
        metrics.sign_ins_rejected.inc()
        log.warning("sign-in rejected: provider concurrency limit", network=network, request_id=gate.request_id)
        raise TooManySignIns("too many sign-ins are waiting for the provider")
    try:
        yield
    finally:
        slots.release(network)


def too_many_sign_ins_page(request: HttpRequest) -> HttpResponse:
    """Return the page for TooManySignIns.  Nothing was consumed, so the same request can be repeated."""
    response = render_error(
        request,
        503,
        Message("Too many sign-ins from your network are in progress."),
        advice=Message("Reload this page in a few seconds. If you are already signed in, nothing changes."),
    )
    response.headers["Retry-After"] = "5"
    return response


def requires_session(
    *methods: str, back: Links, sign_in_url: Callable[[HttpRequest], str] = lambda request: ""
) -> Callable[[SignedInView], View]:
    """Decorate a view that needs a session, and pass the session to it.

    Changes (not GET, not HEAD) need the session's CSRF token; `back` links to the page of the form.  Without a session, reads redirect to
    `sign_in_url`; changes, and reads with an empty URL, are 401.
    """

    def decorate(view: SignedInView) -> View:
        @functools.wraps(view)
        async def answer(request: HttpRequest) -> HttpResponse:
            if request.method not in methods:
                return HttpResponseNotAllowed(methods)
            is_change, session = request.method not in ("GET", "HEAD"), await get_session(request)
            if session is None:
                url = "" if is_change else sign_in_url(request)
                return redirect(url) if url else render_error(request, 401, NOT_SIGNED_IN, links=(SIGN_IN_AGAIN,))
            service = page_context(request).authenticate
            if is_change and not has_valid_csrf_token(request, service, session):
                return render_error(request, 400, EXPIRED, links=back)
            return await view(request, service, session)

        # Django's CSRF token protects the admin; gate's forms have their own, bound to the session.
        return csrf_exempt(renders_bad_request(answer))

    return decorate


def renders_bad_request(view: View) -> View:
    """Decorate a view so that BadRequest becomes an error page."""

    @functools.wraps(view)
    async def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return await view(request, *args, **kwargs)
        except BadRequest as error:
            reason = Sentence("%(error)s.", error=error.message)
            return render_error(request, 400, reason, advice=START_AGAIN, links=(SIGN_IN_AGAIN,))

    return answer
