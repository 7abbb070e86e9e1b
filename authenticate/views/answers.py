"""Shared by the authenticate host's views: the raw cookies, the limit on sign-ins, and expected errors as pages."""

import functools
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import structlog
from django.http import HttpRequest, HttpResponse

from authenticate.service import AuthenticateService, page_context
from databroker.records import SessionRecord
from foundation.client_network import client_network
from foundation.crypto.csrf_token import FIELD, HEADER
from foundation.errors import BadRequest, ProviderError
from foundation.telemetry import metrics
from foundation.web.message import Message, Sentence
from foundation.web.preferences import preferred_type
from foundation.web.responses import error_page

log = structlog.get_logger(__name__)

View = Callable[..., Awaitable[HttpResponse]]
SIGN_IN_AGAIN = (Message("Sign in again"), "/.gate/")
NOT_SIGNED_IN = Message("You are not signed in.")
START_AGAIN = Message("Start again.")
TRY_AGAIN = Message("Try again")


def cookie_headers(request: HttpRequest) -> list[bytes]:
    """The raw Cookie headers: Django's own dictionary keeps only one of several cookies with the same name."""
    return [value for name, value in request.scope["headers"] if name == b"cookie"]


def is_from_our_page(request: HttpRequest, service: AuthenticateService, session: SessionRecord) -> bool:
    """Whether a page of ours that this session was shown sends this request: its token comes as a field, or from its script as a header."""
    token = request.headers.get(HEADER, "") or request.POST.get(FIELD, "")
    return service.csrf.check(token, cookie_headers(request), service.clock(), bound_to=session.id)


def wants_json(request: HttpRequest) -> bool:
    return preferred_type(request.headers.get("Accept", "")) == "json"


def provider_trouble(request: HttpRequest, error: Exception, retry_url: str) -> HttpResponse:
    log.error("sign-in failed at the identity provider", error=str(error), request_id=page_context(request).request_id)
    response = error_page(
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
    """The limit on sign-ins that wait for the provider is reached, for all or for this network."""


@contextmanager
def sign_in_slot(request: HttpRequest, provider: str) -> Iterator[None]:
    """A slot of the limit on requests to this provider that browsers cause, none where it is not configured; TooManySignIns.

    Each network has a share: anybody can begin sign-ins and bring back made-up codes, and while the provider is slow each holds a
    connection to it.
    """
    gate = page_context(request)
    places, network = gate.authenticate.places_at_provider.get(provider), client_network(gate.client_address)
    if places is None:
        yield
        return
    if not places.take(network):
        metrics.sign_ins_turned_away.inc()
        log.warning("sign-in rejected: provider concurrency limit", network=network, request_id=gate.request_id)
        raise TooManySignIns("too many sign-ins are waiting for the provider")
    try:
        yield
    finally:
        places.leave(network)


def too_many_sign_ins(request: HttpRequest) -> HttpResponse:
    """The page for TooManySignIns.  Nothing was used up: the same request may come again."""
    response = error_page(
        request,
        503,
        Message("Too many sign-ins from your network are in progress."),
        advice=Message("Reload this page in a few seconds. If you are already signed in, nothing changes."),
    )
    response.headers["Retry-After"] = "5"
    return response


def errors_as_pages(view: View) -> View:
    """Decorator: a view whose expected errors become pages."""

    @functools.wraps(view)
    async def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return await view(request, *args, **kwargs)
        except BadRequest as error:
            reason = Sentence("%(error)s.", error=error.said)
            return error_page(request, 400, reason, advice=START_AGAIN, links=(SIGN_IN_AGAIN,))

    return answer
