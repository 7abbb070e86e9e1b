"""SCIM 2.0: where a provider pushes its users and groups (RFC 7644).  Not there unless `scim_token` is set."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog
from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt

from authenticate import strict_json
from authenticate.scim import changes, filters, schemas
from authenticate.scim.access import PATH
from authenticate.scim.directory import ScimDirectory
from authenticate.scim.errors import ScimError, not_found
from authenticate.scim.resources import shown_group, shown_user, version_of
from authenticate.service import AuthenticateService
from databroker.audit import Push
from databroker.records import SCIM_GROUP, SCIM_USER, Record
from gateproject.errors import BrokerError
from gateproject.responses import error_page, finished

log = structlog.get_logger(__name__)

LIST = "urn:ietf:params:scim:api:messages:2.0:ListResponse"
MEDIA_TYPES = ("application/scim+json", "application/json")
DEFAULT_COUNT = 100
DEEPEST = 12
# Filters on these are answered by the index.
INDEXED = frozenset({"username", "externalid", "displayname"})

Show = Callable[[Record, str], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What differs between users and groups."""

    type: str
    noun: str
    show: Show
    create: Callable[..., Awaitable[Record]]
    replace: Callable[..., Awaitable[Record]]
    patch: Callable[..., Awaitable[Record]]
    delete: Callable[..., Awaitable[None]]


@dataclass(slots=True)
class Change:
    """What one request changed; None was, or is, not there."""

    before: Record | None = None
    after: Record | None = None

    def tell(self, before: Record | None, after: Record | None) -> None:
        self.before, self.after = before, after


_D = ScimDirectory
ENDPOINTS = {
    "Users": Endpoint(SCIM_USER, "user", shown_user, _D.create_user, _D.replace_user, _D.patch_user, _D.delete_user),
    "Groups": Endpoint(SCIM_GROUP, "group", shown_group, _D.create_group, _D.replace_group, _D.patch_group, _D.delete_group),
}


# The bearer token is the proof: no cookie is looked at.
@csrf_exempt
async def scim(request: HttpRequest, path: str) -> HttpResponse:
    service: AuthenticateService = request.scope["gate"].authenticate
    if not service.scim_access:
        return error_page(request, 404, "There is no such page.", links=(("Who am I?", "/.gate/"),))
    try:
        if not service.scim_access.admits(request.headers.get("Authorization", "")):
            log.warning("a push of users was refused", reason="wrong token", request_id=request.scope["gate"].request_id)
            raise ScimError(401, "the bearer token is missing or wrong")
        return await _answer(request, service, path.strip("/").split("/"))
    except ScimError as error:
        return _refused(error)
    except BrokerError as error:
        log.error("data broker does not answer", error=str(error), request_id=request.scope["gate"].request_id)
        return _refused(ScimError(503, "the data broker does not answer; try again in a moment"))


async def _answer(request: HttpRequest, service: AuthenticateService, steps: list[str]) -> HttpResponse:
    base = service.origin + PATH
    name, rest = steps[0], steps[1:]
    if name in ENDPOINTS and len(rest) <= 1:
        return await _resources(request, service.scim, ENDPOINTS[name], rest[0] if rest else "", base)
    if request.method != "GET":
        raise ScimError(405, "only GET is possible here")
    if name == "ServiceProviderConfig" and not rest:
        return _json(200, schemas.service_provider_config(base))
    listed = {"ResourceTypes": schemas.resource_types, "Schemas": schemas.schemas}.get(name)
    if listed is None or len(rest) > 1:
        raise not_found("/".join(steps))
    documents = listed(base)
    if not rest:
        return _json(200, _list(documents, len(documents), 1))
    found = [document for document in documents if document["id"] == rest[0]]
    if not found:
        raise not_found(rest[0])
    return _json(200, found[0])


async def _resources(request: HttpRequest, directory: ScimDirectory, endpoint: Endpoint, id: str, base: str) -> HttpResponse:
    if_match, change = request.headers.get("If-Match", ""), Change()
    match request.method, bool(id):
        case "GET", False:
            return await _listed(request, directory, endpoint, base)
        case "GET", True:
            return _shown(request, 200, await directory.find(endpoint.type, id), endpoint, base)
        case "POST", False:
            record = await endpoint.create(directory, _document(request), told=change.tell)
            await _tell(request, endpoint, "created", record.id, change)
            return _shown(request, 201, record, endpoint, base)
        case "PUT" | "PATCH" as method, True:
            write = endpoint.replace if method == "PUT" else endpoint.patch
            record = await write(directory, id, _document(request), if_match, told=change.tell)
            await _tell(request, endpoint, "changed", id, change, is_active=record.data["resource"].get("active"))
            return _shown(request, 200, record, endpoint, base)
        case "DELETE", True:
            await endpoint.delete(directory, id, if_match, told=change.tell)
            await _tell(request, endpoint, "deleted", id, change)
            return finished(HttpResponse(status=204))
        case _:
            raise ScimError(405, f"{request.method} is not possible here")


async def _listed(request: HttpRequest, directory: ScimDirectory, endpoint: Endpoint, base: str) -> HttpResponse:
    text, start, count = request.GET.get("filter", ""), _number(request, "startIndex", 1), _number(request, "count", DEFAULT_COUNT)
    start, count = max(start, 1), min(max(count, 0), schemas.MOST_RESULTS)
    asked = filters.parse(text) if text else None
    total, page = 0, []
    async for record in _candidates(directory, endpoint.type, asked):
        if asked is not None and not asked.matches(endpoint.show(record, base)):
            continue
        total += 1
        if start <= total < start + count:
            page.append(_selected(request, endpoint.show(record, base)))
    return _json(200, _list(page, total, start))


async def _candidates(directory: ScimDirectory, type: str, asked: filters.Filter | None) -> AsyncIterator[Record]:
    attribute, value = asked.equals if asked is not None and asked.equals is not None else ("", "")
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
        raise ScimError(400, f"the body is not a JSON object that has one reading: {error}", "invalidSyntax") from error
    if _depth(document) > DEEPEST:
        raise ScimError(400, "the body is nested too deeply", "invalidSyntax")
    return document


def _depth(value: Any) -> int:
    """The parser has bounded the recursion."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(_depth, inner), default=0)


def _number(request: HttpRequest, name: str, otherwise: int) -> int:
    text = request.GET.get(name, "")
    if not text:
        return otherwise
    if len(text) > 10 or not text.removeprefix("-").isdecimal():
        raise ScimError(400, f"{name} must be a whole number", "invalidValue")
    return int(text)


def _selected(request: HttpRequest, shown: dict[str, Any]) -> dict[str, Any]:
    """RFC 7644, 3.9, for whole attributes: Entra ID leaves out members when it looks for a group."""
    wanted = {name.strip().lower() for name in request.GET.get("attributes", "").split(",") if name.strip()}
    left_out = {name.strip().lower() for name in request.GET.get("excludedAttributes", "").split(",")}
    always = {"id", "schemas"}
    return {
        name: value
        for name, value in shown.items()
        if name in always or ((not wanted or name.lower() in wanted) and name.lower() not in left_out)
    }


def _shown(request: HttpRequest, status: int, record: Record, endpoint: Endpoint, base: str) -> HttpResponse:
    shown = endpoint.show(record, base)
    response = _json(status, _selected(request, shown))
    response.headers["ETag"] = version_of(record)
    response.headers["Location"] = shown["meta"]["location"]
    return response


def _list(resources: list[dict[str, Any]], total: int, start: int) -> dict[str, Any]:
    return {"schemas": [LIST], "totalResults": total, "startIndex": start, "itemsPerPage": len(resources), "Resources": resources}


def _json(status: int, document: Mapping[str, Any]) -> HttpResponse:
    return finished(HttpResponse(json.dumps(document).encode(), status=status, content_type="application/scim+json"))


def _refused(error: ScimError) -> HttpResponse:
    response = _json(error.status, error.document())
    if error.status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    if error.status == 503:
        response.headers["Retry-After"] = "5"
    return response


async def _tell(request: HttpRequest, endpoint: Endpoint, what: str, id: str, change: Change, **more: Any) -> None:
    """One line of the log, where what the resource says of a person does not belong, and a row of the audit log where anything is new."""
    gate = request.scope["gate"]
    facts = {name: value for name, value in more.items() if value is not None}
    log.info(f"{endpoint.noun} {what} by the provider", id=id, client_address=gate.client_address, request_id=gate.request_id, **facts)
    record, action = change.after or change.before, changes.action(change.before, change.after)
    if record is None or not action:
        return
    id, words = changes.object_of(record, gate.authenticate.options.idp_provider)
    await gate.authenticate.scim_trail.note(Push(record.modified, gate.client_address, action, endpoint.noun, id, words))
