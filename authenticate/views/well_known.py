"""Well-known documents: public signing keys, and client metadata for registration at a provider."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from authenticate.page_paths import BACKCHANNEL_LOGOUT_PATH, FRONTCHANNEL_LOGOUT_PATH
from authenticate.service import page_context
from foundation.web import responses

JWKS_PATH = "/.well-known/gate/jwks.json"


@require_safe
async def jwks(request: HttpRequest) -> HttpResponse:
    """The key set (RFC 7517) of the attestation JWT."""
    service = page_context(request).authenticate
    if not service.signing_key.is_configured:
        document = {
            "status": 404,
            "error": "Not Found",
            "reason": "No signing_key is configured.",
            "request_id": page_context(request).request_id,
        }
        return responses.json_response(document, status=404)
    response = responses.json_response(await service.jwks_publisher.jwks())
    # Upstreams may cache the keys for a minute; a new key reaches every process shortly.
    response.headers["Cache-Control"] = "public, max-age=60"
    return response


@require_safe
async def client_metadata(request: HttpRequest) -> HttpResponse:
    """Return gate's client metadata.  Providers without ID tokens do not support logout."""
    service = page_context(request).authenticate
    document: dict[str, object] = {
        "authentication_callback_endpoint": service.origin + service.options.authenticate_callback_path,
        "jwks_uri": service.origin + JWKS_PATH,
    }
    has_logout = any(client.provider.issues_id_token for client in service.providers.all())
    for channel, path in (("backchannel", BACKCHANNEL_LOGOUT_PATH), ("frontchannel", FRONTCHANNEL_LOGOUT_PATH)):
        document |= {f"{channel}_logout_supported": has_logout, f"{channel}_logout_session_supported": has_logout}
        if has_logout:
            document |= {f"{channel}_logout_uri": service.origin + path, f"{channel}_logout_session_required": True}
    return responses.json_response(document)
