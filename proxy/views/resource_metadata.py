"""Metadata of protected resources (RFC 9728): where OAuth clients get a token for a route with `mcp`, and gate's command line for any."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from authorize.protected_resources import ProtectedResource
from foundation.web import responses
from proxy.service import page_context
from proxy.views.route_host import unknown

METHODS = "GET, HEAD, OPTIONS"


async def resource_metadata(request: HttpRequest, path: str = "") -> HttpResponse:
    """Serve the path form, and the root form: the resource of the whole host, or its only one."""
    own = page_context(request)
    found = _find(own.proxy.protected_resources.for_host(own.incoming.request.host, own.incoming.request.port), path)
    if request.method == "OPTIONS":
        response = responses.finalize(HttpResponse(status=204, headers={"Access-Control-Allow-Methods": METHODS}))
        response.headers["Access-Control-Allow-Headers"] = "Authorization, MCP-Protocol-Version"
    elif request.method not in ("GET", "HEAD"):
        response = responses.json_response({"error": "invalid_request"}, status=405)
        response.headers["Allow"] = METHODS
    elif found is None:
        response = await unknown(request)
    else:
        response = responses.json_response(_document(found, own.options.authenticate_service_url.origin))
        response.headers["Cache-Control"] = "public, max-age=60"
    # It is public, the same for everybody, and a client in a browser must read it before it has a token.
    response.headers["Access-Control-Allow-Origin"] = "*"
    return response


@require_safe
async def command_line_metadata(request: HttpRequest) -> HttpResponse:
    """Serve the metadata of this host, or of its tunnel on `port`, for gate's command line.  Programs read it before they have a token."""
    own, ports = page_context(request), request.GET.getlist("port") or [""]
    found = own.proxy.command_line_resource(own.incoming.request, ports[0]) if len(ports) == 1 else None
    if found is None:
        return await unknown(request)
    response = responses.json_response(_document(found, own.options.authenticate_service_url.origin))
    response.headers["Cache-Control"] = "public, max-age=60"
    return response


def _find(resources: tuple[ProtectedResource, ...], path: str) -> ProtectedResource | None:
    path = path.rstrip("/")
    exact = next((each for each in resources if each.path == path), None)
    return resources[0] if exact is None and not path and len(resources) == 1 else exact


def _document(resource: ProtectedResource, issuer: str) -> dict[str, Any]:
    document: dict[str, Any] = {
        "resource": resource.uri,
        "authorization_servers": [issuer],
        "bearer_methods_supported": ["header"],
        "resource_name": resource.name,
    }
    return {**document, "scopes_supported": list(resource.scopes)} if resource.scopes else document
