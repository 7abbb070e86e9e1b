"""SCIM 2.0 endpoint (RFC 7644): each provider pushes its own users and groups.  404 unless a `scim_token` is set."""

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

import structlog
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from authenticate.provider import strict_json
from authenticate.scim import audit_text, schemas, scim_filter
from authenticate.scim.resources import get_etag
from authenticate.scim.scim_authenticator import PATH
from authenticate.scim.scim_directory import ScimDirectory, ScimGroups, ScimUsers
from authenticate.scim.scim_errors import ScimError, not_found
from authenticate.scim.scim_query import SEARCH, AttributeSelection, ScimQuery
from authenticate.service import AuthenticateService, page_context
from databroker.audit_log import scim_entry
from databroker.records import Record
from foundation.auth_challenges import INVALID_TOKEN
from foundation.errors import BrokerError
from foundation.web.message import Message
from foundation.web.responses import finalize, render_error

log = structlog.get_logger(__name__)

LIST_RESPONSE = "urn:ietf:params:scim:api:messages:2.0:ListResponse"
MEDIA_TYPES = ("application/scim+json", "application/json")
MAX_DEPTH = 12
# The index evaluates filters on these.
INDEXED = frozenset({"username", "externalid", "displayname"})

ScimResources = ScimUsers | ScimGroups


# The bearer token authenticates the request; cookies are ignored.
@csrf_exempt
async def scim(request: HttpRequest, path: str = "") -> HttpResponse:
    service = page_context(request).authenticate
    if not service.scim_access:
        return render_error(request, 404, Message("This page does not exist."), links=((Message("Your applications"), "/.gate/"),))
    try:
        if (provider_id := service.scim_access.authenticate(request.headers.get("Authorization", ""))) is None:
            log.warning("SCIM request rejected", reason="wrong token", request_id=page_context(request).request_id)
            raise ScimError(401, "the bearer token is missing or wrong")
        return await _dispatch(request, service, service.scim[provider_id], path.strip("/").split("/"))
    except ScimError as error:
        response = _json(error.status, error.document())
        if error.status == 401 and "Authorization" in request.headers:
            response.headers["WWW-Authenticate"] = INVALID_TOKEN
        return response
    except BrokerError as error:
        log.error("data broker unavailable", error=str(error), request_id=page_context(request).request_id)
        unavailable = ScimError(503, "the data broker is unavailable; try again in a moment")
        return _json(unavailable.status, unavailable.document())


async def _dispatch(request: HttpRequest, service: AuthenticateService, directory: ScimDirectory, steps: list[str]) -> HttpResponse:
    base = service.origin + PATH
    endpoints: dict[str, ScimResources] = {"Users": directory.users, "Groups": directory.groups}
    name, rest = steps[0], steps[1:]
    if steps[-1] == SEARCH and len(steps) <= 2 and (name in endpoints or not rest):
        return await _search(request, directory, [endpoints[name]] if rest else endpoints.values(), base)
    if steps == [""] and request.method == "GET":
        return await _list_resources(directory, endpoints.values(), ScimQuery.parse(request.GET.dict()), base)
    if name in endpoints and len(rest) <= 1:
        return await _resources(request, directory, endpoints[name], rest[0] if rest else "", base)
    if request.method != "GET":
        raise ScimError(405, "only GET is allowed here")
    if name == "ServiceProviderConfig" and not rest:
        return _json(200, schemas.service_provider_config(base))
    documents = {"ResourceTypes": schemas.resource_types(base), "Schemas": schemas.schemas(base, directory.provider.scim_user_id)}.get(name)
    if documents is None or len(rest) > 1:
        raise not_found("/".join(steps))
    if not rest:
        return _json(200, _list_response(documents, len(documents), 1))
    found = [document for document in documents if document["id"] == rest[0]]
    if not found:
        raise not_found(rest[0])
    return _json(200, found[0])


async def _resources(request: HttpRequest, directory: ScimDirectory, resources: ScimResources, id: str, base: str) -> HttpResponse:
    # Parsed before anything is written, so that an invalid request changes nothing.
    if_match, selection = request.headers.get("If-Match", ""), AttributeSelection.parse(request.GET.dict())
    match request.method, bool(id):
        case "GET", False:
            return await _list_resources(directory, [resources], ScimQuery.parse(request.GET.dict()), base)
        case "GET", True:
            return _resource_response(200, await directory.find(resources.type, id), resources, base, selection)
        case "POST", False:
            before, record = await resources.create(_document(request))
            await _audit(request, resources, "created", record, audit_text.action(before, record))
            return _resource_response(201, record, resources, base, selection)
        case "PUT" | "PATCH" as method, True:
            write = resources.replace if method == "PUT" else resources.patch
            before, record = await write(id, _document(request), if_match)
            is_active = record.data["resource"].get("active")
            await _audit(request, resources, "changed", record, audit_text.action(before, record), is_active=is_active)
            return _resource_response(200, record, resources, base, selection)
        case "DELETE", True:
            deleted = await resources.delete(id, if_match)
            await _audit(request, resources, "deleted", deleted, audit_text.action(deleted, None))
            return finalize(HttpResponse(status=204))
        case _:
            raise ScimError(405, f"{request.method} is not allowed here")


async def _search(request: HttpRequest, directory: ScimDirectory, endpoints: Iterable[ScimResources], base: str) -> HttpResponse:
    """Respond to a query in a body, which keeps user names in filters out of logged URLs."""
    if request.method != "POST":
        raise ScimError(405, "only POST is allowed here")
    return await _list_resources(directory, endpoints, ScimQuery.parse(_document(request)), base)


async def _list_resources(directory: ScimDirectory, endpoints: Iterable[ScimResources], query: ScimQuery, base: str) -> HttpResponse:
    total, page = 0, []
    for resources in endpoints:
        async for record in _candidates(directory, resources.type, query.filter):
            if query.filter is not None and not query.filter.matches(resources.show(record, base)):
                continue
            total += 1
            if query.start <= total < query.start + query.count:
                page.append(query.selection.apply(resources.show(record, base)))
    return _json(200, _list_response(page, total, query.start))


async def _candidates(directory: ScimDirectory, type: str, filter: scim_filter.ScimFilter | None) -> AsyncIterator[Record]:
    attribute, value = filter.equals if filter is not None and filter.equals is not None else ("", "")
    if attribute not in INDEXED and attribute != "id":
        async for record in directory.all(type):
            yield record
        return
    for id in (value,) if attribute == "id" else await directory.ids_with(type, attribute, value):
        try:
            yield await directory.find(type, id)
        except ScimError:
            continue


def _document(request: HttpRequest) -> dict[str, Any]:
    if request.content_type not in MEDIA_TYPES:
        raise ScimError(415, "the body must be application/scim+json")
    try:
        document = strict_json.parse_object(request.body)
    except ValueError as error:
        raise ScimError(400, f"the body is not an unambiguous JSON object: {error}", "invalidSyntax") from error
    if _depth(document) > MAX_DEPTH:
        raise ScimError(400, "the body is nested too deeply", "invalidSyntax")
    return document


def _depth(value: Any) -> int:
    """Return the depth of a JSON value.  The parser has bounded the recursion."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(_depth, inner), default=0)


def _resource_response(status: int, record: Record, resources: ScimResources, base: str, selection: AttributeSelection) -> HttpResponse:
    document = resources.show(record, base)
    response = _json(status, selection.apply(document))
    response.headers["ETag"] = get_etag(record)
    response.headers["Location"] = document["meta"]["location"]
    return response


def _list_response(resources: list[dict[str, Any]], total: int, start: int) -> dict[str, Any]:
    return {"schemas": [LIST_RESPONSE], "totalResults": total, "startIndex": start, "itemsPerPage": len(resources), "Resources": resources}


def _json(status: int, document: Mapping[str, Any]) -> HttpResponse:
    return finalize(HttpResponse(json.dumps(document).encode(), status=status, content_type="application/scim+json"))


async def _audit(request: HttpRequest, resources: ScimResources, what: str, record: Record, action: str, **more: Any) -> None:
    """Log the change without personal data, and audit it if anything changed."""
    gate, provider = page_context(request), resources.provider
    facts = {"provider": provider.id, **{name: value for name, value in more.items() if value is not None}}
    filter = {"client_address": gate.client_address, "request_id": gate.request_id}
    log.info("SCIM resource changed", resource=resources.noun, change=what, id=record.id, **filter, **facts)
    if not action:
        return
    id, text = audit_text.describe_object(record, provider.id, provider.record_id_prefix)
    provider_scope = provider.id if provider.is_entry else ""
    await gate.authenticate.audit_writer.enqueue(
        scim_entry(record.modified, gate.client_address, action, resources.noun, id, text, provider_scope)
    )
