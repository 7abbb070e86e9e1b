"""OAuth client of gate's authorization server: discovery (RFC 9728, RFC 8414), token requests, device authorization, revocation."""

import json
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from foundation.values import Url, parse_url
from gateproject.tunnel.tls_connection import TunnelError, TunnelResponse, send_request
from gateproject.tunnel.token_file import StoredToken, is_token

CLIENT_ID = "gate"
TEMPORARILY_UNAVAILABLE = "temporarily_unavailable"
DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"
DEFAULT_INTERVAL_SECONDS = 5.0  # RFC 8628 3.2
_RESOURCE_PATH = "/.well-known/gate/oauth-protected-resource"
_SERVER_PATH = "/.well-known/oauth-authorization-server"
_MAX_SECONDS = 10 * 365 * 86400
_MAX_TEXT = 300  # characters of a server's text in a message


class OAuthError(TunnelError):
    """Error response of the authorization server (RFC 6749 5.2); `code` is its `error`."""

    def __init__(self, code: str, message: str):
        self.code = code
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class GateAddress:
    """Address at which gate is reached, and the TLS context of all connections."""

    url: Url
    context: ssl.SSLContext


@dataclass(frozen=True, slots=True)
class DeviceResponse:
    """Device authorization response (RFC 8628 3.2)."""

    device_code: str
    user_code: str
    verification_uri: str
    expires_in: float  # seconds
    interval: float  # seconds


@dataclass(frozen=True, slots=True)
class AuthorizationServer:
    """Authorization server of one resource; each request is for this resource (RFC 8707)."""

    issuer: str
    resource: str
    metadata: Mapping[str, Any]
    context: ssl.SSLContext

    def build_authorization_url(self, **params: str) -> str:
        """Return the URL that the browser opens. Raise TunnelError."""
        endpoint = self._endpoint("authorization_endpoint")
        query = {"response_type": "code", "client_id": CLIENT_ID, "resource": self.resource, **params}
        return f"{endpoint}{'&' if endpoint.query else '?'}{urlencode(query)}"

    async def request_tokens(self, grant_type: str, **params: str) -> StoredToken:
        """Return the tokens of a grant. Raise OAuthError, TunnelError."""
        started_at = time.time()
        document = await self._post("token_endpoint", grant_type=grant_type, resource=self.resource, **params)
        access_token, refresh_token, kind = (_get_text(document, name) for name in ("access_token", "refresh_token", "token_type"))
        if kind.lower() != "bearer" or not is_token(access_token):
            raise OAuthError("", f"{self.issuer} returned no token")
        return StoredToken(self.issuer, access_token, started_at + _get_seconds(document, "expires_in"), refresh_token)

    async def start_device(self) -> DeviceResponse:
        """Start a device authorization. Raise OAuthError, TunnelError."""
        document = await self._post("device_authorization_endpoint", resource=self.resource)
        values = {name: _get_text(document, name) for name in ("device_code", "user_code", "verification_uri")}
        if not all(map(is_token, values.values())):
            raise TunnelError(f"{self.issuer} returned no device code")
        interval = _get_seconds(document, "interval") or DEFAULT_INTERVAL_SECONDS
        return DeviceResponse(**values, expires_in=_get_seconds(document, "expires_in"), interval=interval)

    async def revoke(self, token: str) -> None:
        """Revoke a refresh token, which ends its session (RFC 7009). Raise OAuthError, TunnelError."""
        await self._post("revocation_endpoint", token=token, token_type_hint="refresh_token")  # noqa: S106 - a type

    async def _post(self, endpoint: str, **params: str) -> dict[str, Any]:
        url, body = self._endpoint(endpoint), urlencode({"client_id": CLIENT_ID, **params}).encode()
        target = f"{url.path or '/'}?{url.query}" if url.query else url.path or "/"
        headers = {"Host": url.host_port, "Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
        response, _ = await send_request(url, self.context, "POST", target, headers, body)
        document = _parse_object(response)
        if response.status == 200:
            return document
        code = printable(_get_text(document, "error")) or (TEMPORARILY_UNAVAILABLE if response.status >= 500 else "")
        description = printable(_get_text(document, "error_description")) or code or str(response.status)
        raise OAuthError(code, f"{self.issuer} refused: {description}")

    def _endpoint(self, name: str) -> Url:
        return _parse_https(_get_text(self.metadata, name), f"{name} of {self.issuer}")


async def discover(gate: GateAddress, resource: Url) -> AuthorizationServer:
    """Return the authorization server of a route, `https://host` or `tcp+https://host:port`. Raise TunnelError."""
    query, host = "", resource.host_port
    if is_tunnel(resource):
        # A tunnel's port is only a name: pages of its host are at the port of gate.
        query, host = f"?port={resource.port}", Url("https", resource.host, gate.url.port).host_port
    response = await _get(gate.url, gate.context, f"{_RESOURCE_PATH}{query}", host)
    if response.status == 404:
        raise TunnelError(
            f"gate at {gate.url.host_port} has no sign-in for {resource}: there is no such route, or its version is older than this command"
        )
    document = _require_object(response, f"the metadata of {resource}")
    # RFC 9728 3.3: else a server could get a token for another resource.
    if document.get("resource") != str(resource):
        raise TunnelError(f"gate at {gate.url.host_port} returned the metadata of another resource than {resource}")
    servers = document.get("authorization_servers")
    issuer = servers[0] if isinstance(servers, list) and servers and isinstance(servers[0], str) else ""
    return await _read_metadata(issuer, str(resource), gate.context)


async def _read_metadata(issuer: str, resource: str, context: ssl.SSLContext) -> AuthorizationServer:
    url = _parse_https(issuer, f"the authorization server of {resource}")
    response = await _get(url, context, _SERVER_PATH, url.host_port)
    metadata = _require_object(response, f"the metadata of {url}")
    # RFC 8414 3.3: else one server could send its clients to another.
    if metadata.get("issuer") != issuer:
        raise TunnelError(f"{url} returned the metadata of another authorization server")
    methods = metadata.get("code_challenge_methods_supported")
    if not isinstance(methods, list) or "S256" not in methods:
        raise TunnelError(f"{url} does not support PKCE with S256")
    return AuthorizationServer(issuer, resource, metadata, context)


def is_tunnel(resource: Url) -> bool:
    return resource.scheme == "tcp+https"


async def _get(url: Url, context: ssl.SSLContext, target: str, host: str) -> TunnelResponse:
    response, _ = await send_request(url, context, "GET", target, {"Host": host, "Accept": "application/json"})
    return response


def _require_object(response: TunnelResponse, described: str) -> dict[str, Any]:
    document = _parse_object(response)
    if response.status != 200 or not document:
        raise TunnelError(f"{described} can't be read: {response.status}. Check that this is the address of gate")
    return document


def _parse_object(response: TunnelResponse) -> dict[str, Any]:
    """Return the JSON object of a response; empty if there is none."""
    try:
        document = json.loads(response.body)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _parse_https(value: str, described: str) -> Url:
    try:
        url = parse_url(value)
    except ValueError as error:
        raise TunnelError(f"{described} is not valid: {error}") from None
    if url.scheme != "https":
        raise TunnelError(f"{described} is not valid: it must be https")
    return url


def _get_seconds(document: Mapping[str, Any], name: str) -> float:
    value = document.get(name)
    return float(value) if isinstance(value, int | float) and 0 <= value <= _MAX_SECONDS else 0.0


def _get_text(document: Mapping[str, Any], name: str) -> str:
    value = document.get(name)
    return value if isinstance(value, str) else ""


def printable(text: str) -> str:
    """Return a server's text on one line without control characters, which terminals interpret."""
    return "".join(character for character in " ".join(text.split()) if character.isprintable())[:_MAX_TEXT]
