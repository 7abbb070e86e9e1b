"""Responses of the authorization server's endpoints for programs: JSON, never cached, readable by any origin."""

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any
from urllib.parse import parse_qsl

import structlog
from authlib.oauth2.rfc6749 import InvalidRequestError, OAuth2Error
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from authenticate.oauth.authorization_server import TemporarilyUnavailableError
from authenticate.service import page_context
from foundation.errors import BrokerError
from foundation.web import responses

FORM = "application/x-www-form-urlencoded"
MAX_FIELDS = 50

log = structlog.get_logger(__name__)

Endpoint = Callable[[HttpRequest], Coroutine[Any, Any, HttpResponse]]


def cors_endpoint(*methods: str) -> Callable[[Endpoint], Endpoint]:
    """Decorate an endpoint that programs call, also from pages of any origin.

    That is safe because it ignores cookies: a page can send only what it knows itself.
    """

    def decorate(view: Endpoint) -> Endpoint:
        @csrf_exempt
        @wraps(view)
        async def answer(request: HttpRequest) -> HttpResponse:
            if request.method == "OPTIONS":
                response = HttpResponse(status=204)
                response.headers["Access-Control-Allow-Methods"] = ", ".join(methods)
                response.headers["Access-Control-Allow-Headers"] = "Authorization, Content-Type, MCP-Protocol-Version"
                response.headers["Access-Control-Max-Age"] = "3600"
            elif request.method not in methods:
                response = error_response(InvalidRequestError(f"The method must be {methods[0]}.", status_code=405))
                response.headers["Allow"] = ", ".join(methods)
            else:
                response = await _answer(view, request)
            response.headers["Access-Control-Allow-Origin"] = "*"
            return responses.finalize(response)

        return answer

    return decorate


async def _answer(view: Endpoint, request: HttpRequest) -> HttpResponse:
    try:
        return await view(request)
    except OAuth2Error as error:
        return error_response(error)
    except BrokerError as error:
        log.error("data broker unavailable", error=str(error), request_id=page_context(request).request_id)
        response = error_response(TemporarilyUnavailableError())
        response.headers["Retry-After"] = str(error.retry_after)
        return response


def json_answer(status: int, body: dict[str, Any], headers: list[tuple[str, str]] | None = None) -> HttpResponse:
    response = responses.json_response(body, status=status)
    for name, value in headers or []:
        response.headers[name] = value
    response.headers["Cache-Control"] = "no-store"
    return response


def error_response(error: OAuth2Error) -> HttpResponse:
    """Return an error of RFC 6749 5.2."""
    status, body, headers = error()
    return json_answer(status, body, headers)


def unique_params(text: str) -> dict[str, str]:
    """Return the parameters of a query or form.  Raises InvalidRequestError if one is repeated (RFC 6749 3.1, 3.2)."""
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict")
    except ValueError as error:
        raise InvalidRequestError("The parameters are not form-encoded UTF-8.") from error
    params = {name: value for name, value in pairs if value}  # RFC 6749 3.1: one without a value counts as absent
    if len(dict(pairs)) != len(pairs):
        raise InvalidRequestError("A parameter is repeated.")
    return params


def form_params(request: HttpRequest) -> dict[str, str]:
    """Return the parameters of a form in the body.  Raises InvalidRequestError."""
    if request.headers.get("Content-Type", "").partition(";")[0].strip().lower() != FORM:
        raise InvalidRequestError(f"The body must be {FORM}.")
    try:
        return unique_params(request.body.decode("ascii"))
    except UnicodeDecodeError as error:
        raise InvalidRequestError("The parameters are not form-encoded UTF-8.") from error
