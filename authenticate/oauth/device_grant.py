"""Device authorization grant on Authlib (RFC 8628): the endpoint of the device, and its polling at the token endpoint."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from authlib.oauth2.rfc6749 import InvalidGrantError, InvalidScopeError, UnauthorizedClientError
from authlib.oauth2.rfc8628 import DeviceAuthorizationEndpoint, DeviceCodeGrant

from authenticate.oauth.authorization_server import (
    AUTHENTICATION_METHODS,
    GateAuthorizationServer,
    OAuthRequest,
    require_same_resource,
)
from authenticate.oauth.oauth_client import DEVICE_CODE, OAuthClient
from authenticate.oauth.oauth_records import DeviceAuthorization, DeviceState
from authenticate.oauth.server_metadata import DEVICE_PATH
from databroker.records import SessionRecord
from foundation.crypto.agent_token import matches_hash
from foundation.crypto.device_codes import NewDeviceCodes

DEVICE_CODE_SECONDS = 600
POLL_SECONDS, SLOWER_SECONDS = 5, 5  # RFC 8628 3.2, 3.5
POLL_TOLERANCE_SECONDS = 1.0  # of networks and clocks
DEVICE_ENDPOINT = DeviceAuthorizationEndpoint.ENDPOINT_NAME


class DeviceAuthorizationServer(GateAuthorizationServer):
    """Server for one request of a device.

    `device` is the authorization that its device code names, and `new_codes` are those to issue.  Results: `started` is the
    authorization to create, `polled` the one to write.
    """

    def __init__(
        self, *args: Any, device: DeviceAuthorization | None = None, new_codes: NewDeviceCodes | None = None, client_address: str = ""
    ):
        super().__init__(*args)
        self.device, self.new_codes, self.client_address = device, new_codes, client_address
        self.started: DeviceAuthorization | None = None
        self.polled: DeviceAuthorization | None = None
        self.register_grant(_DeviceGrant)
        self.register_endpoint(_DeviceEndpoint)


class _DeviceEndpoint(DeviceAuthorizationEndpoint):
    CLIENT_AUTH_METHODS = AUTHENTICATION_METHODS
    EXPIRES_IN = DEVICE_CODE_SECONDS
    INTERVAL = POLL_SECONDS

    # enforcement-point: Authorization server: Device authorization request
    def authenticate_client(self, request: OAuthRequest) -> OAuthClient:
        """Authenticate the client, and check what it requests (RFC 8628 3.1, RFC 8707 2)."""
        client: OAuthClient = super().authenticate_client(request)
        if not client.check_grant_type(DEVICE_CODE):
            raise UnauthorizedClientError("This client may not use device authorization.")
        resource = self.server.find_resource(request)
        scope = client.at(resource).get_allowed_scope(request.payload.scope)
        if scope is None:
            raise InvalidScopeError()
        self._requested = (client, resource.uri, tuple(scope.split()))
        return client

    def generate_user_code(self) -> str:
        return str(self.server.new_codes.user_code)

    def generate_device_code(self) -> str:
        return str(self.server.new_codes.device_code.token)

    def get_verification_uri(self) -> str:
        return f"{self.server.issuer}{DEVICE_PATH}"

    def save_device_credential(self, client_id: str, scope: str, data: Mapping[str, Any]) -> None:
        """Set `started`: device_authorizations.py writes it."""
        server = self.server
        client, resource, scopes = self._requested
        server.started = DeviceAuthorization(
            client_id=client.client_id,
            client_name=client.name,
            resource=resource,
            scopes=scopes,
            device_code_hash=server.new_codes.device_code.hash,
            requested_at=server.now,
            expires_at=server.now + DEVICE_CODE_SECONDS,
            client_address=server.client_address,
            interval_seconds=POLL_SECONDS,
        )


class _DeviceCredential:
    """Device authorization in the form that Authlib queries."""

    def __init__(self, device: DeviceAuthorization, now: float):
        self._device, self._now = device, now

    def get_client_id(self) -> str:
        return self._device.client_id

    def get_scope(self) -> str:
        return " ".join(self._device.scopes)

    def get_user_code(self) -> str:
        return ""  # its record has a MAC of it only

    def is_expired(self) -> bool:
        return self._now >= self._device.expires_at


class _DeviceGrant(DeviceCodeGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = AUTHENTICATION_METHODS

    # enforcement-point: Authorization server: Device codes
    def query_device_credential(self, device_code: str) -> _DeviceCredential:
        server = self.server
        device, client = server.device, server.client
        is_known = device is not None and matches_hash(device_code, device.device_code_hash)
        if not is_known or client is None or client.client_id != device.client_id:
            raise InvalidGrantError("The device code is unknown, or it was issued to another client.")
        return _DeviceCredential(device, server.now)

    def query_user_grant(self, user_code: str) -> tuple[SessionRecord | None, bool] | None:
        """Return (session, whether the user approved); None while the user has not decided."""
        server = self.server
        device, agent = server.device, server.agent
        if device.state is DeviceState.PENDING:
            return None
        if device.state is DeviceState.DENIED:
            return None, False
        if agent is None or agent.code is None or agent.code.hash != device.device_code_hash:
            raise InvalidGrantError("The session of this device code has ended.")
        if agent.code.redeemed_at:
            server.reused = "device code"
            raise InvalidGrantError("The device code was used.")
        require_same_resource(server, self.request, is_required=False)
        return server.session, True

    def should_slow_down(self, credential: _DeviceCredential) -> bool:
        """Return whether the device polls too often, and set `polled`."""
        server = self.server
        device, now = server.device, server.now
        is_early = now < device.polled_at + device.interval_seconds - POLL_TOLERANCE_SECONDS
        server.polled = replace(device, polled_at=now, interval_seconds=device.interval_seconds + (SLOWER_SECONDS if is_early else 0))
        return is_early

    def create_token_response(self) -> Any:
        """Issue tokens, and mark the code as redeemed.  It stays in the record, so that its second use is noticed."""
        response = super().create_token_response()
        self.server.mark_code_redeemed()
        return response
