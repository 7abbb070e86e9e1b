"""Remote authorizer: the authorize service of another process, over Envoy's protocol, authenticated by the shared secret."""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from typing import Any

import grpc
from envoy.service.auth.v3 import external_auth_pb2 as pb

from authorize.accessible_routes import AccessibleRoute
from authorize.authorizer import Attestation, AuthorizationResult, Authorizer
from authorize.identity.identity_loader import IdentityLoader
from authorize.policy.compiled_route import CompiledRoute
from authorize.policy.criterion import TraceStep
from authorize.policy.decision import NO_ROUTE, Decision, Outcome
from authorize.policy.identity import Identity
from authorize.policy.mcp_message import McpMessage
from authorize.policy.policy_request import PolicyRequest
from authorize.policy.reasons import Reason
from authorize.rpc import check_attributes
from authorize.rpc.ext_authz import CHECK
from authorize.upstream.identity_headers import ASSERTION, Headers, identity_header_names
from config.options import Options
from databroker.replica import Replica
from foundation.errors import AccountConnectionRequired, BadRequest, BrokerError, NoIdentity, UpstreamCredentialsUnavailable
from foundation.rpc.rpc_channel import RpcChannel, RpcError

_FIELDS = frozenset(each.name for each in fields(Identity) if each.init)


# enforcement-point: Services and certificates: Decisions of a remote authorize service
class RemoteAuthorizer(Authorizer):
    """Authorizer over gRPC.

    Its own routes match the request, and authorize must match the same route, which it decides.  `replica` has the version of the records
    that this process has seen, so that no older ones decide.
    """

    def __init__(
        self,
        options: Options,
        channel: RpcChannel,
        replica: Replica,
        clock: Callable[[], float] = time.time,
        previous: Authorizer | None = None,
    ):
        super().__init__(options, previous)
        self.identity_header_names = identity_header_names(options)
        self._channel = channel
        self._replica = replica
        self._identities = IdentityLoader.from_options(options, replica)
        self._clock = clock

    async def check(self, request: PolicyRequest, cookie_headers: Iterable[bytes], request_id: str = "") -> AuthorizationResult:
        route = self.routes.match(request)
        if route is None:
            return AuthorizationResult(NO_ROUTE, None)
        response = await self._call(request, cookie_headers, {check_attributes.ROUTE: route.id}, request_id)
        metadata = _metadata(response)
        decision = _decision(metadata, route)
        identity = _identity(metadata.get("identity"))
        names = ("challenge", "token_error", "missing_scopes", "requestable_tool")
        challenge, refused, scopes, tool = (str(metadata.get(name) or "") for name in names)
        headers = _headers(response) if decision.is_allowed else ()
        return AuthorizationResult(decision, identity, headers, challenge, refused, _valid_until(metadata), tuple(scopes.split()), tool)

    async def identify(self, cookie_headers: Iterable[bytes], host_port: str) -> Identity | None:
        host, _, port = host_port.partition(":") if not host_port.startswith("[") else (host_port, "", "")
        request = PolicyRequest(method="GET", host=host, port=int(port) if port else None, path="/")
        return _identity(
            _metadata(await self._call(request, cookie_headers, {check_attributes.PURPOSE: check_attributes.IDENTIFY})).get("identity")
        )

    async def load_session_identity(self, session_id: str) -> Identity | None:
        """Load the identity from the records, because responses of authorize contain neither groups nor claims."""
        return await self._identities.load(session_id, self._clock())

    async def attest(self, request: PolicyRequest, cookie_headers: Iterable[bytes]) -> Attestation:
        response = await self._call(request, cookie_headers, {check_attributes.PURPOSE: check_attributes.ATTEST})
        check_request = dict(_headers(response))
        return Attestation(_identity(_metadata(response).get("identity")), check_request.get(ASSERTION, b"").decode("ascii"))

    async def accessible_routes(self, request: PolicyRequest, cookie_headers: Iterable[bytes]) -> tuple[AccessibleRoute, ...]:
        metadata = _metadata(await self._call(request, cookie_headers, {check_attributes.PURPOSE: check_attributes.ACCESSIBLE_ROUTES}))
        try:
            named = [frozenset(metadata[name].split()) for name in ("open", "open_after_step_up", "pages", "mcp")]
            open_now, after_step_up, pages, mcp = named
        except (KeyError, AttributeError) as error:
            raise BrokerError("authorize sent an unknown response. Use the same release for all services") from error
        # If two routes share an id, requests match only the first.
        first = dict[str, CompiledRoute]()
        for route in self.routes.routes():
            first.setdefault(route.id, route)
        found = [route for id, route in first.items() if id in open_now or id in after_step_up]
        return tuple(AccessibleRoute(route, route.id in after_step_up, route.id in pages, route.id in mcp) for route in found)

    async def allowed_calls(
        self, request: PolicyRequest, authorization: AuthorizationResult, cookie_headers: Iterable[bytes], calls: Sequence[McpMessage]
    ) -> Sequence[bool]:
        if (route := authorization.decision.compiled_route) is None or not authorization.decision.is_allowed or not calls:
            return [False] * len(calls)
        extensions = {check_attributes.ROUTE: route.id, **check_attributes.mcp_calls_extension(calls)}
        allowed = str(_metadata(await self._call(request, cookie_headers, extensions)).get("allowed", ""))
        if len(allowed) != len(calls):
            raise BrokerError("authorize sent an unknown response. Use the same release for all services")
        return [mark == "1" for mark in allowed]

    async def credentials_for(
        self, authorization: AuthorizationResult, request: PolicyRequest, cookie_headers: Iterable[bytes], rejected: str = ""
    ) -> Headers:
        route = authorization.decision.compiled_route
        if (
            route is None
            or not authorization.decision.is_allowed
            or authorization.decision.is_preflight
            or not self.injects_credentials(route)
        ):
            return ()
        extensions = {check_attributes.ROUTE: route.id, check_attributes.PURPOSE: check_attributes.CREDENTIALS}
        extensions |= {check_attributes.REJECTED: rejected} if rejected else {}
        if headers := _headers(await self._call(request, cookie_headers, extensions)):
            return headers
        raise UpstreamCredentialsUnavailable("authorize returned no credentials")

    async def _call(
        self, request: PolicyRequest, cookie_headers: Iterable[bytes], extensions: dict[str, str], request_id: str = ""
    ) -> pb.CheckResponse:
        check_request = check_attributes.to_check_request(
            request,
            cookie_headers,
            {**extensions, **check_attributes.mcp_extension(request.mcp), check_attributes.SYNC_TOKEN: self._replica.sync_token},
            request_id,
        )
        try:
            return await self._channel.call(CHECK, check_request, pb.CheckResponse, idempotent=True)
        except RpcError as error:
            if error.code is grpc.StatusCode.INVALID_ARGUMENT:
                raise BadRequest("authorize can't read it in one way") from error
            if error.code is grpc.StatusCode.NOT_FOUND:
                raise AccountConnectionRequired(error.details) from error
            if error.code is grpc.StatusCode.PERMISSION_DENIED:
                raise NoIdentity(error.details) from error
            if error.code is grpc.StatusCode.FAILED_PRECONDITION:
                raise UpstreamCredentialsUnavailable(error.details) from error
            raise BrokerError(f"authorize: {error}") from error


def _decision(metadata: dict[str, Any], route: CompiledRoute) -> Decision:
    """Return the decision.  Raises BrokerError for an unknown response, so that it never allows a request."""
    try:
        trace = tuple(TraceStep(step["rule"], int(step["value"]), Reason[step["reason"]]) for step in metadata.get("trace", ()))
        outcome = Outcome[metadata["outcome"]]
    except (KeyError, TypeError) as error:
        raise BrokerError("authorize sent an unknown response. Use the same release for all services") from error
    if metadata.get("route") != route.id or outcome is Outcome.NO_ROUTE or (outcome is Outcome.ALLOWED and not trace):
        raise BrokerError("authorize decided on another route")
    return Decision(outcome, route, trace)


def _identity(metadata: dict[str, Any] | None) -> Identity | None:
    """Build the identity, ignoring fields of later releases, as with records (docs/decisions/split-mode.md)."""
    if not metadata:
        return None
    try:
        values = {name: value for name, value in metadata.items() if name in _FIELDS}
        return Identity(**{**values, "scopes": frozenset(values.get("scopes") or ())})
    except TypeError as error:
        raise BrokerError("authorize sent an unknown response. Use the same release for all services") from error


def _valid_until(metadata: dict[str, Any]) -> float:
    """Return the expiry in Unix seconds, infinite if the response has none."""
    valid_until = metadata.get("valid_until", math.inf)
    if not isinstance(valid_until, int | float):
        raise BrokerError("authorize sent an unknown response. Use the same release for all services")
    return float(valid_until)


def _headers(response: pb.CheckResponse) -> Headers:
    return tuple((option.header.key.encode("latin-1"), option.header.value.encode()) for option in response.ok_response.headers)


def _metadata(response: pb.CheckResponse) -> dict[str, Any]:
    """Return the metadata as plain values, because a Struct's values are views."""
    return {name: _value(value) for name, value in response.dynamic_metadata.fields.items()}


def _value(value: Any) -> Any:
    match value.WhichOneof("kind"):
        case "struct_value":
            return {name: _value(item) for name, item in value.struct_value.fields.items()}
        case "list_value":
            return [_value(item) for item in value.list_value.values]
        case None | "null_value":
            return None
        case kind:
            return getattr(value, kind)
