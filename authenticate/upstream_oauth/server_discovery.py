"""Endpoints of the authorization servers of third-party MCP servers: configured, or discovered (RFC 9728, RFC 8414).

The server names its authorization server, which names its endpoints.  So that they can't make gate send requests into an internal network
(SSRF), gate dials only addresses that it has checked: public ones, or those of the kind (loopback, private) of the server's own address.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from authenticate.provider.address_scope import AddressScope
from authenticate.provider.discovery import is_secure_url
from authenticate.provider.provider_http import ProviderHttp
from authenticate.provider.single_flight_cache import SingleFlightCache
from authorize.upstream.account_connections import UpstreamServer
from config.options import Options
from foundation.errors import ProviderError

TIMEOUT = 8.0  # seconds for a complete exchange
MAX_BODY = 64 * 1024
LIFETIME = 3600.0
MAX_URL_LENGTH = 1024
RESOURCE_METADATA = "/.well-known/oauth-protected-resource"
# Of RFC 8414, then of OpenID Connect Discovery, as the MCP specification orders them.  The path of the issuer is inserted or appended.
_INSERTED = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")
_APPENDED = "/.well-known/openid-configuration"


@dataclass(frozen=True, slots=True)
class ServerEndpoints:
    """Endpoints of a server's authorization server.  `issuer` is "" if it is not configured, `resource` names the server (RFC 8707).

    `sends_iss`: each authorization response has `iss` (RFC 9207).
    """

    issuer: str
    resource: str
    authorization_endpoint: str
    token_endpoint: str
    revocation_endpoint: str = ""
    sends_iss: bool = False


class ServerDiscovery:
    """Endpoints and connections for all servers of one configuration."""

    def __init__(self, options: Options, clock: Callable[[], float]):
        self._options = options
        self._clock = clock
        self._http: dict[str, ProviderHttp] = {}  # by fingerprint
        self._caches: dict[str, SingleFlightCache[ServerEndpoints]] = {}

    async def close(self) -> None:
        for http in self._http.values():
            await http.close()

    def http_for(self, server: UpstreamServer) -> ProviderHttp:
        """Return the connections for the endpoints of a server."""
        if (http := self._http.get(server.fingerprint)) is None:
            # The operator configures all URLs, or only that of the server.
            scope = AddressScope(None if server.settings.token_url is not None else server.uri)
            http = ProviderHttp(self._options, scope, timeout=TIMEOUT, max_body=MAX_BODY, peer="the authorization server")
            self._http[server.fingerprint] = http
        return http

    async def find(self, server: UpstreamServer) -> ServerEndpoints:
        """Return the endpoints.  Raises ProviderError."""
        settings = server.settings
        if settings.authorization_url is not None and settings.token_url is not None:
            issuer, revocation_url = str(settings.issuer or ""), str(settings.revocation_url or "")
            return ServerEndpoints(issuer, server.uri, str(settings.authorization_url), str(settings.token_url), revocation_url)
        if (cache := self._caches.get(server.fingerprint)) is None:
            cache = SingleFlightCache(lambda: self._discover(server), lifetime=LIFETIME, clock=self._clock)
            self._caches[server.fingerprint] = cache
        return await cache.get()

    # enforcement-point: Upstream requests: Discovery of authorization servers
    async def _discover(self, server: UpstreamServer) -> ServerEndpoints:
        parts = urlsplit(server.uri)
        origin, path, configured = f"{parts.scheme}://{parts.netloc}", parts.path, server.settings.issuer
        candidates = dict.fromkeys((f"{origin}{RESOURCE_METADATA}{path}", f"{origin}{RESOURCE_METADATA}"))
        document = await self._first(server, candidates, "protected-resource metadata")
        resource, issuer = parse_resource_metadata(document, server.uri, str(configured) if configured is not None else None)
        document = await self._first(server, _metadata_urls(issuer), "authorization server metadata")
        return parse_server_metadata(document, issuer, resource, needs_document=server.settings.client_id is None)

    async def _first(self, server: UpstreamServer, urls: Mapping[str, None], what: str) -> Mapping[str, Any]:
        """Return the first document that exists."""
        for url in urls:
            answer = await self.http_for(server).get(url)
            if answer.status == 200:
                if answer.media_type != "application/json":
                    raise ProviderError(f"the {what} of {server.uri} is not JSON")
                return answer.json()
            if answer.status >= 500:
                raise ProviderError(f"the {what} of {server.uri} is unavailable: status {answer.status}")
        raise ProviderError(f"{server.uri} has no {what}: set authorization_url and token_url")


def parse_resource_metadata(document: Mapping[str, Any], uri: str, configured_issuer: str | None) -> tuple[str, str]:
    """Return the URI of the server and the issuer of its authorization server (RFC 9728).  Raises ProviderError.

    The URI is the server's own, or that of a path above it.
    """
    resource, issuers = document.get("resource"), document.get("authorization_servers")
    named = resource.rstrip("/") if isinstance(resource, str) else ""
    if not named or not (uri == named or uri.startswith(f"{named}/")) or urlsplit(named).netloc != urlsplit(uri).netloc:
        raise ProviderError(f"the protected-resource metadata is of another resource than {uri}")
    secure = [each for each in issuers if _is_url(each, uri) and "?" not in each] if isinstance(issuers, list) else []
    if configured_issuer is not None:
        secure = [each for each in secure if each == configured_issuer]
    if not secure:
        raise ProviderError(f"{uri} names no authorization server with an https URL" if configured_issuer is None else "another issuer")
    return named, secure[0]


def parse_server_metadata(document: Mapping[str, Any], issuer: str, resource: str, *, needs_document: bool) -> ServerEndpoints:
    """Return the endpoints (RFC 8414).  Raises ProviderError if the server lacks what gate needs, or has another issuer.

    `needs_document`: gate's client id is the URL of its metadata document, which the server must accept.
    """
    if document.get("issuer") != issuer:
        raise ProviderError(f"the authorization server metadata of {issuer} has another issuer")
    if "S256" not in _names(document.get("code_challenge_methods_supported")):
        raise ProviderError(f"the authorization server {issuer} does not support PKCE with S256")
    if "code" not in _names(document.get("response_types_supported", ["code"])):
        raise ProviderError(f"the authorization server {issuer} does not support authorization codes")
    if needs_document and document.get("client_id_metadata_document_supported") is not True:
        raise ProviderError(f"the authorization server {issuer} accepts no client metadata document: register gate and set client_id")
    required = {name: document.get(name) for name in ("authorization_endpoint", "token_endpoint")}
    for name, url in required.items():
        if not _is_url(url, issuer):
            raise ProviderError(f"the {name} of {issuer} is missing, or is not https")
    revocation = document.get("revocation_endpoint")
    return ServerEndpoints(
        issuer,
        resource,
        str(required["authorization_endpoint"]),
        str(required["token_endpoint"]),
        str(revocation) if _is_url(revocation, issuer) else "",
        sends_iss=document.get("authorization_response_iss_parameter_supported") is True,
    )


def _metadata_urls(issuer: str) -> Mapping[str, None]:
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    return dict.fromkeys((*(f"{origin}{name}{path}" for name in _INSERTED), f"{origin}{path}{_APPENDED}"))


def _is_url(value: object, named_by: str) -> bool:
    """Return whether a value is a URL to which gate may send requests and users: https, or loopback of a server at loopback."""
    return isinstance(value, str) and len(value) <= MAX_URL_LENGTH and is_secure_url(value, named_by)


def _names(value: object) -> frozenset[str]:
    return frozenset(name for name in value if isinstance(name, str)) if isinstance(value, list) else frozenset()
