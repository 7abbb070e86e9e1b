"""API for programs: what the pages do, below /.gate/api/.  The token of a service account is the proof: no cookie is looked at."""

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
from databroker.audit_log import AuditLogAway
from foundation.errors import BrokerError, GateError
from foundation.web import responses
from foundation.web.problem_details import PROBLEM, problem_document

log = structlog.get_logger(__name__)

DOCUMENT = "openapi.json"
AWAY = "temporarily unavailable; try again"


@csrf_exempt
async def api(request: HttpRequest, path: str) -> HttpResponse:
    try:
        if path == DOCUMENT:
            return _document(request)
        if request.method == "OPTIONS" and (methods := allowed_methods(path)):
            return responses.finished(HttpResponse(status=204, headers={"Allow": methods}))
        return await _answer(request, path)
    except ApiProblem as problem:
        if problem.reason:
            log.warning("API token rejected", reason=problem.reason, request_id=page_context(request).request_id)
        return _problem(request, problem)
    except (BrokerError, Error, AuditLogAway) as error:
        reason = str(error).partition("\n")[0]
        log.error("API call failed", path=path[:100], reason=reason, request_id=page_context(request).request_id)
        return _problem(request, ApiProblem(503, AWAY).with_header("Retry-After", str(BrokerError.retry_after)))
    except GateError as error:  # what the doors refuse, in their words
        return _problem(request, ApiProblem(error.status, str(error)))


async def _answer(request: HttpRequest, path: str) -> HttpResponse:
    gate = page_context(request)
    service = gate.authenticate
    operation, id = find_operation(request.method or "", path)
    with _place(service, ""):
        program = await service.api_access.authenticate(gate.incoming.request)
    with _place(service, program.id):
        program.require_permission(operation.permission)
        query = parse_query(operation, request.META.get("QUERY_STRING", ""))
        body = parse_body(operation, request.headers.get("Content-Type", ""), request.body)
        await service.api_access.record_use(program, service.host_port)
        around = ApiContext(
            service.options,
            service.broker,
            service.clock,
            service.access,
            gate.authorize.load_session_identity,
            gate.client_address,
            gate.request_id,
        )
        answer = await operation.handler(ApiCall(around, program, id, query, body))
    return responses.finished(HttpResponse(status=204)) if answer is None else _json(answer, operation.status)


def _json(answer: BaseModel, status: int) -> HttpResponse:
    content = answer.model_dump_json(by_alias=True).encode() + b"\n"
    return responses.finished(HttpResponse(content, status=status, content_type="application/json"))


def _document(request: HttpRequest) -> HttpResponse:
    """The document, for everybody: it says nothing of this installation."""
    if request.method in ("GET", "HEAD"):
        return responses.json_page(openapi_document())
    if request.method == "OPTIONS":
        return responses.finished(HttpResponse(status=204, headers={"Allow": "GET, HEAD, OPTIONS"}))
    raise ApiProblem(405, "this endpoint is read-only").with_header("Allow", "GET, HEAD, OPTIONS")


@contextmanager
def _place(service: AuthenticateService, program: str) -> Iterator[None]:
    """One of the calls that are answered at a time; each program has its share of them."""
    if not service.api_places.acquire(program):
        raise ApiProblem(429, "too many concurrent calls; try again in a moment").with_header("Retry-After", "1")
    try:
        yield
    finally:
        service.api_places.release(program)


def _problem(request: HttpRequest, problem: ApiProblem) -> HttpResponse:
    incoming, request_id = page_context(request).incoming, page_context(request).request_id
    incoming.told = str(problem)
    content = problem_document(problem.status, str(problem), request_id, **problem.members)
    headers = {**problem.headers, "X-Request-Id": request_id}
    return responses.finished(HttpResponse(content, status=problem.status, content_type=PROBLEM, headers=headers))
