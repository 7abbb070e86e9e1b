"""Registration endpoint (RFC 7591)."""

from django.http import HttpRequest, HttpResponse

from authenticate.oauth.dynamic_registration import RegistrationRefused
from authenticate.service import page_context
from authenticate.views.oauth.oauth_responses import cors_endpoint, json_answer


@cors_endpoint("POST")
async def register(request: HttpRequest) -> HttpResponse:
    gate = page_context(request)
    registration = gate.authenticate.agents.clients.dynamic
    if not registration.is_enabled:
        return json_answer(404, {"error": "not_found", "error_description": "Dynamic client registration is disabled."})
    try:
        return json_answer(201, await registration.register(request.body, gate.client_address))
    except RegistrationRefused as error:
        return json_answer(error.status, {"error": error.error, "error_description": error.description})
