"""HTTP API below /.gate/api/ for client applications.  Service account tokens authenticate calls; cookies are ignored."""

from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from django.db import Error
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from pydantic import BaseModel

from authenticate.api.api_call import ApiCall, ApiContext
from authenticate.api.api_problems import ApiProblem
from authenticate.api.openapi import openapi_document
from authenticate.api.request_parsing import allowed_methods, find_operation, parse_body, parse_query
from authenticate.service import AuthenticateService, page_context
from databroker.audit_log import AuditLogUnavailable
from foundation.errors import BrokerError, GateError
from foundation.web import responses
from foundation.web.problem_details import PROBLEM, problem_document

log = structlog.get_logger(__name__)

OPENAPI_PATH = "openapi.json"
UNAVAILABLE = "temporarily unavailable; try again"


@csrf_exempt
async def api(request: HttpRequest, path: str) -> HttpResponse:
    try:
        if path == OPENAPI_PATH:
            return _document(request)
        if request.method == "OPTIONS" and (methods := allowed_methods(path)):
            return responses.finalize(HttpResponse(status=204, headers={"Allow": methods}))
        return await _dispatch(request, path)
    except ApiProblem as problem:
        if problem.reason:
            log.warning("API token rejected", reason=problem.reason, request_id=page_context(request).request_id)
        return _problem(request, problem)
    except (BrokerError, Error, AuditLogUnavailable) as error:
        reason = str(error).partition("\n")[0]
        log.error("API call failed", path=path[:100], reason=reason, request_id=page_context(request).request_id)
        return _problem(request, ApiProblem(503, UNAVAILABLE).with_header("Retry-After", str(BrokerError.retry_after)))
    except GateError as error:  # refused by a service, with its message
        return _problem(request, ApiProblem(error.status, str(error)))


async def _dispatch(request: HttpRequest, path: str) -> HttpResponse:
    gate = page_context(request)
    service = gate.authenticate
    operation, id = find_operation(request.method or "", path)
    with _slot(service, ""):
        principal = await service.api_access.authenticate(gate.incoming.request)
    with _slot(service, principal.id):
        principal.require_permission(operation.permission)
        query = parse_query(operation, request.META.get("QUERY_STRING", ""))
        body = parse_body(operation, request.headers.get("Content-Type", ""), request.body)
        await service.api_access.record_use(principal, service.host_port)
        context = ApiContext(
            service.options,
            service.broker,
            service.clock,
            service.access_requests,
            gate.authorize.load_session_identity,
            service.connections,
            gate.client_address,
            gate.request_id,
        )
        response = await operation.handler(ApiCall(context, principal, id, query, body))
    return responses.finalize(HttpResponse(status=204)) if response is None else _json(response, operation.status)


def _json(response: BaseModel, status: int) -> HttpResponse:
    content = response.model_dump_json(by_alias=True).encode() + b"\n"
    return responses.finalize(HttpResponse(content, status=status, content_type="application/json"))


def _document(request: HttpRequest) -> HttpResponse:
    """Return the OpenAPI document.  It is public, because it has nothing of this installation."""
    if request.method in ("GET", "HEAD"):
        return responses.json_response(openapi_document())
    if request.method == "OPTIONS":
        return responses.finalize(HttpResponse(status=204, headers={"Allow": "GET, HEAD, OPTIONS"}))
    raise ApiProblem(405, "this endpoint is read-only").with_header("Allow", "GET, HEAD, OPTIONS")


@contextmanager
def _slot(service: AuthenticateService, principal: str) -> Iterator[None]:
    """Hold one of the slots for concurrent calls.  Each service account has a share of them; raises ApiProblem 429."""
    if not service.api_slots.acquire(principal):
        raise ApiProblem(429, "too many concurrent calls; try again in a moment").with_header("Retry-After", "1")
    try:
        yield
    finally:
        service.api_slots.release(principal)


def _problem(request: HttpRequest, problem: ApiProblem) -> HttpResponse:
    incoming, request_id = page_context(request).incoming, page_context(request).request_id
    incoming.response_reason = str(problem)
    content = problem_document(problem.status, str(problem), request_id, **problem.members)
    headers = {**problem.headers, "X-Request-Id": request_id}
    return responses.finalize(HttpResponse(content, status=problem.status, content_type=PROBLEM, headers=headers))
