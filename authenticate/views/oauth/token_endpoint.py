"""Token, revocation and device authorization endpoints, and the metadata of the authorization server."""

import base64
import binascii

from authlib.oauth2.rfc6749 import InvalidClientError, InvalidRequestError
from django.http import HttpRequest, HttpResponse

from authenticate.oauth.server_metadata import server_metadata
from authenticate.oauth.token_metrics import REVOCATION, count_token_request
from authenticate.oauth.token_service import TokenResult
from authenticate.service import page_context
from authenticate.views.oauth.oauth_responses import cors_endpoint, form_params, json_answer
from databroker.audit_log import AuditAction, account_token_entry, session_entry


@cors_endpoint("GET")
async def metadata(request: HttpRequest) -> HttpResponse:
    service = page_context(request).authenticate
    agents = service.agents
    clients = agents.clients
    document = server_metadata(agents.issuer, accepts_documents=clients.documents.is_enabled, has_registration=clients.dynamic.is_enabled)
    response = json_answer(200, document)
    response.headers["Cache-Control"] = "public, max-age=60"
    return response


@cors_endpoint("POST")
async def token(request: HttpRequest) -> HttpResponse:
    gate, params = page_context(request), _params(request)
    with count_token_request(params.get("grant_type", "")) as counted:
        result = counted.result = await gate.authenticate.agents.token(params, _headers(request), gate.client_address)
    return await _respond(request, result, AuditAction.ISSUE_TOKEN)


@cors_endpoint("POST")
async def revoke(request: HttpRequest) -> HttpResponse:
    gate = page_context(request)
    with count_token_request(REVOCATION) as counted:
        result = counted.result = await gate.authenticate.agents.revoke(_params(request), _headers(request), gate.client_address)
    return await _respond(request, result, AuditAction.REVOKE_TOKEN)


@cors_endpoint("POST")
async def device_authorization(request: HttpRequest) -> HttpResponse:
    gate = page_context(request)
    response = await gate.authenticate.agents.start_device(_params(request), _headers(request), gate.client_address)
    return json_answer(response.status, response.body, response.headers)


async def _respond(request: HttpRequest, result: TokenResult, token_action: AuditAction) -> HttpResponse:
    gate, ended, token = page_context(request), result.ended, result.account_token
    if token is not None:
        service = gate.authenticate
        entry = account_token_entry(service.clock(), token.account, token.resource, gate.client_address, token_action)
        await service.audit_writer.enqueue(entry)
    if ended is not None:
        service = gate.authenticate
        service.revoke_in_background(ended)
        entry = session_entry(service.clock(), ended, gate.options.providers, gate.client_address, AuditAction.REVOKE_AGENT, ended)
        await service.audit_writer.enqueue(entry)
    return json_answer(result.response.status, result.response.body, result.response.headers)


def _params(request: HttpRequest) -> dict[str, str]:
    if request.META.get("QUERY_STRING"):
        # URLs are logged, so they must not carry codes, tokens or secrets.
        raise InvalidRequestError("The parameters must be in the body.")
    return form_params(request)


def _headers(request: HttpRequest) -> dict[str, str]:
    """Return the headers that identify the client.  Raises InvalidClientError for malformed credentials."""
    authorization = request.headers.get("Authorization", "")
    scheme, _, credentials = authorization.partition(" ")
    if scheme.lower() == "basic":
        try:
            base64.b64decode(credentials, validate=True).decode("utf-8")
        except (binascii.Error, ValueError) as error:
            raise InvalidClientError("The credentials are malformed.", status_code=401) from error
    return {"Authorization": authorization, "User-Agent": request.headers.get("User-Agent", "")}
