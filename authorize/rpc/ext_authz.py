"""External authorization server (envoy.service.auth.v3) for gate's proxies and for external Envoys."""

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import grpc
from envoy.config.core.v3 import base_pb2
from envoy.service.auth.v3 import external_auth_pb2 as pb
from envoy.type.v3 import http_status_pb2
from google.rpc import code_pb2, status_pb2

from authorize.accessible_routes import AccessibleRoute
from authorize.authorizer import Attestation, AuthorizationResult
from authorize.ext_authz_types import DeniedResponse, EnvoyRequest, ExtAuthzDependencies, OkResponse, require_same_route
from authorize.policy.criterion import TraceStep
from authorize.policy.decision import Outcome
from authorize.policy.identity import Identity
from authorize.policy.paths.canonical import require_canonical
from authorize.policy.policy_request import PolicyRequest
from authorize.rpc import check_attributes
from authorize.upstream.identity_headers import ASSERTION
from foundation.bounded_cache import bounded_lru_cache, total_length
from foundation.errors import BadRequest
from foundation.rpc.shared_secret import TOKEN
from foundation.web.asgi_types import Header

SERVICE = "envoy.service.auth.v3.Authorization"
CHECK = f"/{SERVICE}/Check"
MAX_CACHED_RESPONSE_BYTES = 4096  # bytes of all that an answer says
_APPEND = base_pb2.HeaderValueOption.HeaderAppendAction.APPEND_IF_EXISTS_OR_ADD
_OVERWRITE = base_pb2.HeaderValueOption.HeaderAppendAction.OVERWRITE_IF_EXISTS_OR_ADD
_STATUS = {Outcome.SIGN_IN: 401, Outcome.STEP_UP: 401, Outcome.FORBIDDEN: 403, Outcome.NO_ROUTE: 404, Outcome.CERTIFICATE: 495}


class ExtAuthz:
    """Service with one method, Check."""

    def __init__(self, parts: ExtAuthzDependencies):
        self._parts = parts

    def methods(self) -> dict[str, grpc.RpcMethodHandler]:
        return {"Check": grpc.unary_unary_rpc_method_handler(self.check, pb.CheckRequest.FromString)}

    async def check(self, request: pb.CheckRequest, context: grpc.aio.ServicerContext) -> bytes:
        """Return the serialized CheckResponse, because most responses are cached (`_ok_response`)."""
        if any(name == TOKEN for name, _ in context.invocation_metadata() or ()):
            return (await self._check_for_proxy(request)).SerializeToString()
        return await self._check_for_envoy(request)

    async def _check_for_proxy(self, check_request: pb.CheckRequest) -> pb.CheckResponse:
        """Return the decision for a proxy of gate, which builds the response itself.  Errors are gRPC's."""
        authorize, extensions = self._parts.authorize(), check_request.attributes.context_extensions
        # A decision must not use older records than the proxy has seen, because an open stream could outlive its access.
        await self._parts.replica.catch_up(extensions.get(check_attributes.SYNC_TOKEN, ""), self._parts.timeout)
        request, cookies = check_attributes.from_check_request(check_request, authorize.default_ports)
        request = replace(
            request,
            mcp=check_attributes.parse_mcp_extension(extensions),
            stream_session_id=extensions.get(check_attributes.STREAM_SESSION, ""),
        )
        match extensions.get(check_attributes.PURPOSE):
            case check_attributes.IDENTIFY:
                return _attestation_response(Attestation(await authorize.identify(cookies, request.host_port)))
            case check_attributes.ATTEST:
                return _attestation_response(await authorize.attest(request, cookies))
            case check_attributes.ACCESSIBLE_ROUTES:
                return _routes_response(await authorize.accessible_routes(request, cookies))
        if extensions.get(check_attributes.PURPOSE) == check_attributes.CREDENTIALS:
            authorization = await authorize.check(request, cookies)
            require_same_route(authorization, extensions.get(check_attributes.ROUTE, ""))
            rejected = extensions.get(check_attributes.REJECTED, "")
            return _headers_response(await authorize.credentials_for(authorization, request, cookies, rejected))
        if extensions.get(check_attributes.PURPOSE) == check_attributes.MCP_CALLS:
            authorization = await authorize.check(request, cookies)
            require_same_route(authorization, extensions.get(check_attributes.ROUTE, ""))
            calls = check_attributes.parse_mcp_calls(extensions)
            return _calls_response(await authorize.allowed_calls(request, authorization, cookies, calls))
        authorization = await self._parts.recorder.check(authorize, request, cookies, check_request.attributes.request.http.id)
        require_same_route(authorization, extensions.get(check_attributes.ROUTE, ""))
        return _decision_response(authorization)

    async def _check_for_envoy(self, check_request: pb.CheckRequest) -> bytes:
        response = await self._parts.responder().respond(_envoy_request(check_request, self._parts.authorize().default_ports))
        return _denied_response(response) if isinstance(response, DeniedResponse) else _ok_response(response)


def _envoy_request(check_request: pb.CheckRequest, default_ports: frozenset[int]) -> EnvoyRequest:
    http, parse_error = check_request.attributes.request.http, None
    cookies: Sequence[bytes] = ()
    request = PolicyRequest(method=http.method, host="", port=None, path="/")
    try:
        request, cookies = check_attributes.from_check_request(check_request, default_ports)
        # An external Envoy forwards the path as received, while gate's data plane forwards the authorized path.
        require_canonical(check_attributes.to_latin1_bytes(http.path.partition("?")[0]), request.path)
    except BadRequest as error:
        parse_error = error
    headers, address = (
        request.headers or check_attributes.parse_headers(http),
        check_request.attributes.source.address.socket_address.address,
    )
    route_id = check_request.attributes.context_extensions.get(check_attributes.ROUTE, "")
    return EnvoyRequest(request, headers, cookies, address, http.id, time.monotonic(), route_id, parse_error)


def _headers_response(headers: Iterable[Header]) -> pb.CheckResponse:
    response = pb.CheckResponse(status=status_pb2.Status(code=code_pb2.OK))
    for name, value in headers:
        _add(response.ok_response.headers, name, value, append=name == b"impersonate-group")
    return response


def _decision_response(authorization: AuthorizationResult) -> pb.CheckResponse:
    decision = authorization.decision
    response = pb.CheckResponse()
    if decision.is_allowed:
        response.status.code = code_pb2.OK
        for name, value in authorization.identity_headers:
            _add(response.ok_response.headers, name, value)
    else:
        response.status.code = code_pb2.PERMISSION_DENIED
        response.denied_response.status.CopyFrom(_http_status(_STATUS[decision.outcome]))
    trace = [{"rule": step.rule, "value": step.value, "reason": step.reason.name} for step in _disclosed_steps(decision.trace)]
    metadata = {
        "trace": trace,
        "identity": _identity(authorization.identity),
        "challenge": authorization.challenge,
        "token_error": authorization.token_error,
        "missing_scopes": " ".join(authorization.missing_scopes),
        "requestable_tool": authorization.requestable_tool,
    }
    response.dynamic_metadata.update({**_outcome(authorization), **metadata})
    if authorization.valid_until < math.inf:  # which JSON does not know
        response.dynamic_metadata["valid_until"] = authorization.valid_until
    return response


def _disclosed_steps(trace: Sequence[TraceStep]) -> Sequence[TraceStep]:
    """Return the steps that the proxy may disclose to a denied user, and the last, which decided."""
    return [step for step in trace if step is trace[-1] or step.description is None or step.description.is_disclosed]


def _attestation_response(attestation: Attestation) -> pb.CheckResponse:
    response = pb.CheckResponse(status=status_pb2.Status(code=code_pb2.OK))
    if attestation.assertion:
        _add(response.ok_response.headers, ASSERTION, attestation.assertion.encode("ascii"))
    response.dynamic_metadata.update({"identity": _identity(attestation.identity)})
    return response


def _routes_response(openings: Sequence[AccessibleRoute]) -> pb.CheckResponse:
    """Return the ids of the routes.  The caller has their names in its own configuration."""
    response = pb.CheckResponse(status=status_pb2.Status(code=code_pb2.OK))
    for name, after_step_up in (("open", False), ("open_after_step_up", True)):
        response.dynamic_metadata[name] = " ".join(each.route.id for each in openings if each.needs_step_up is after_step_up)
    response.dynamic_metadata["pages"] = " ".join(each.route.id for each in openings if each.opens_page)
    response.dynamic_metadata["mcp"] = " ".join(each.route.id for each in openings if each.serves_mcp)
    return response


def _calls_response(allowed: Sequence[bool]) -> pb.CheckResponse:
    response = pb.CheckResponse(status=status_pb2.Status(code=code_pb2.OK))
    response.dynamic_metadata["allowed"] = "".join("1" if is_allowed else "0" for is_allowed in allowed)
    return response


def _outcome(authorization: AuthorizationResult) -> dict[str, Any]:
    decision = authorization.decision
    return {"outcome": decision.outcome.name, "route": decision.compiled_route.id if decision.compiled_route is not None else ""}


def _identity(identity: Identity | None) -> dict[str, Any] | None:
    """Return the identifying fields and the expiry, without claims and groups."""
    if identity is None:
        return None
    names = ("session_id", "user_id", "subject", "provider", "email", "verified_email", "name", "linked_id", "client_id")
    values: dict[str, Any] = {name: getattr(identity, name) for name in names}
    return values | {"scopes": sorted(identity.scopes), "expires_at": identity.expires_at, "issued_at": identity.issued_at}


# Clients influence which headers are set and removed, and providers the identity headers.
@bounded_lru_cache(
    2048,
    max_key_length=MAX_CACHED_RESPONSE_BYTES,
    size=lambda ok: total_length(ok.identity_headers, ok.headers_to_set, ok.headers_to_remove),
)
def _ok_response(ok: OkResponse) -> bytes:
    """Return the serialized response.

    It is cached, because a browser's requests to one route have the same response.  Each is still authorized.
    """
    response = _headers_response((*ok.identity_headers, *ok.headers_to_set))
    response.ok_response.headers_to_remove.extend([name.decode("latin-1") for name in ok.headers_to_remove])
    response.dynamic_metadata.update({"outcome": ok.outcome.name, "route": ok.route_id})
    return response.SerializeToString()


def _denied_response(response: DeniedResponse) -> bytes:
    denied = pb.CheckResponse(status=status_pb2.Status(code=code_pb2.PERMISSION_DENIED))
    denied.denied_response.status.CopyFrom(_http_status(response.status))
    denied.denied_response.body = response.body.decode("utf-8", "replace")
    for name, value in response.headers:
        if name != b"content-length":  # Envoy counts the body itself
            _add(denied.denied_response.headers, name, value, append=name == b"set-cookie")
    return denied.SerializeToString()


def _add(headers: Any, name: bytes, value: bytes, *, append: bool = False) -> None:
    option = headers.add()
    option.append_action = _APPEND if append else _OVERWRITE
    option.header.key, option.header.value = name.decode("latin-1"), _text(value)


def _text(value: bytes) -> str:
    """Return text that Envoy converts to the same bytes if they are UTF-8, else latin-1."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _http_status(status: int) -> http_status_pb2.HttpStatus:
    return http_status_pb2.HttpStatus(code=status)
