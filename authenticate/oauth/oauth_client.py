"""OAuth client: its registration, and the requests that it may make."""

import hmac
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Self
from urllib.parse import unquote_plus, urlsplit

from authlib.oauth2.rfc6749 import ClientMixin

from authenticate.provider.tokens.key_set import Keys
from authorize.protected_resources import ProtectedResource
from config.settings.oauth_settings import COMMAND_LINE_ID
from foundation.oauth_redirect_uris import LOOPBACK_HOSTS, matches_registered_uri
from foundation.values import SecretText

AUTHORIZATION_CODE, REFRESH_TOKEN, CLIENT_CREDENTIALS = "authorization_code", "refresh_token", "client_credentials"
DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"
NO_AUTHENTICATION, PRIVATE_KEY_JWT = "none", "private_key_jwt"
SECRET_METHODS = ("client_secret_basic", "client_secret_post")
# Clients of OpenID Connect request `offline_access` to get a refresh token.  gate issues one to every client.
IGNORED_SCOPES = frozenset({"offline_access"})


class Registration(Enum):
    """Source of a client's metadata."""

    BUILT_IN = "built in"
    CONFIGURED = "configured"
    METADATA_DOCUMENT = "metadata document"
    DYNAMIC = "dynamic registration"
    SERVICE_ACCOUNT = "service account"


@dataclass(frozen=True, slots=True)
class ClientKeys:
    """Public keys of a client: themselves, or the https URL of its key set.  Without both, its metadata document has them."""

    keys: Keys = ()
    uri: str = ""


@dataclass(frozen=True, slots=True)
class OAuthClient(ClientMixin):
    """Client in the form that Authlib queries.  `resource` is that of the request, None where it is unknown.

    A client with `keys` authenticates with an assertion only; `is_proven` is whether that of the request was verified.
    """

    client_id: str
    name: str
    redirect_uris: tuple[str, ...]
    registration: Registration
    secret: SecretText | None = field(default=None, repr=False)
    session_seconds: float | None = None
    allows_devices: bool = False  # RFC 8628
    resource: ProtectedResource | None = None
    keys: ClientKeys | None = None
    is_proven: bool = False

    @property
    def is_confidential(self) -> bool:
        return self.secret is not None or self.keys is not None

    @property
    def verified_host(self) -> str:
        """Host that published the client's metadata; "" for a client of the configuration."""
        return urlsplit(self.client_id).netloc if self.registration is Registration.METADATA_DOCUMENT else ""

    @property
    def remembers_consent(self) -> bool:
        """Whether a consent is remembered.

        Anyone can publish a metadata document, register a client, or write a program that claims to be gate's command line, so gate
        requests consent to such clients each time.
        """
        return self.registration is Registration.CONFIGURED

    @property
    def is_command_line(self) -> bool:
        return self.registration is Registration.BUILT_IN

    def at(self, resource: ProtectedResource) -> Self:
        return replace(self, resource=resource)

    def get_client_id(self) -> str:
        return self.client_id

    def get_default_redirect_uri(self) -> str:
        return ""  # the client must name it, so that the browser goes where the client waits

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        return matches_registered_uri(redirect_uri, self.redirect_uris)

    # enforcement-point: Authorization server: Scopes of a token
    def get_allowed_scope(self, scope: Any) -> str | None:
        """Return the scopes to grant, all of the resource if none is requested; None if one is not the resource's."""
        known = tuple(self.resource.scopes) if self.resource is not None else ()
        named = filter(None, (scope or "").split(" "))  # RFC 6749 3.3: no other white space
        requested = [each for each in dict.fromkeys(named) if each not in IGNORED_SCOPES]
        if any(each not in known for each in requested):
            return None
        return " ".join(requested or known)

    # enforcement-point: Authorization server: Client secret
    def check_client_secret(self, client_secret: str) -> bool:
        if self.secret is None:
            return False
        known = self.secret.reveal().encode()
        # RFC 6749 2.3.1 has secrets form-encoded in Basic credentials, which not every client does.
        return any(hmac.compare_digest(known, sent.encode()) for sent in (client_secret, unquote_plus(client_secret)))

    # enforcement-point: Authorization server: Method of client authentication
    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        if self.keys is not None:
            return method == PRIVATE_KEY_JWT and self.is_proven
        return method in SECRET_METHODS if self.secret is not None else method == NO_AUTHENTICATION

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        if self.registration is Registration.SERVICE_ACCOUNT:
            return grant_type == CLIENT_CREDENTIALS
        return grant_type in (AUTHORIZATION_CODE, REFRESH_TOKEN) or (grant_type == DEVICE_CODE and self.allows_devices)


# gate's own programs: `gate tunnel` and others that use its tokens at hosts and tunnels instead of MCP servers.
COMMAND_LINE = OAuthClient(
    COMMAND_LINE_ID,
    "gate command line",
    tuple(f"http://{host}/callback" for host in sorted(LOOPBACK_HOSTS)),
    Registration.BUILT_IN,
    allows_devices=True,
)
