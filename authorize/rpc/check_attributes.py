"""Conversion between PolicyRequest and Envoy's attributes (envoy.service.auth.v3)."""

import json
import ssl
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias
from urllib.parse import quote

from envoy.service.auth.v3 import attribute_context_pb2, external_auth_pb2
from google.protobuf.message import DecodeError

from authorize.identity.client_certificates import parse_certificate, parse_pem_chain
from authorize.policy.mcp_message import McpMessage
from authorize.policy.paths.canonical import canonical_host
from authorize.policy.policy_request import ClientCertificate, PolicyRequest, parse_request
from foundation.bounded_cache import bounded_lru_cache
from foundation.errors import BadRequest
from foundation.web.field_values import has_c1_control

# Context extensions.  ROUTE is for every data plane.  The others count only from gate's own (authorize/rpc/ext_authz.py).
ROUTE = "gate_route"  # the id of the route that the data plane will use
PURPOSE = "gate_purpose"  # absent for a decision
IDENTIFY, ATTEST, CREDENTIALS, ACCESSIBLE_ROUTES = "identify", "attest", "credentials", "accessible_routes"
REJECTED = "gate_rejected"  # hash of the credentials that the upstream has rejected (authorize/upstream/upstream_oauth_tokens.py)
MCP_CALLS = "mcp_calls"  # a purpose, and the extension that has the calls in JSON
ENVOY_TOKEN = "gate_token"  # noqa: S105 - one of ext_authz_tokens, from an Envoy that cannot send gRPC metadata
MCP = "gate_mcp"  # the MCP message that the proxy has read, in JSON; absent if it has read none
STREAM_SESSION = "gate_stream_session"  # session of the access token that opened a stream, if the proxy authorizes the stream again
SYNC_TOKEN = "gate_seen"  # noqa: S105 - position of the data plane's replica: older records must not decide

_SEPARATE_HEADERS = (b"cookie", b"origin", b"access-control-request-method")

Http: TypeAlias = attribute_context_pb2.AttributeContext.HttpRequest


def to_check_request(
    request: PolicyRequest, cookie_headers: Iterable[bytes], extensions: dict[str, str], request_id: str = ""
) -> external_auth_pb2.CheckRequest:
    check = external_auth_pb2.CheckRequest()
    check.attributes.context_extensions.update(extensions)
    if request.stream_session_id:
        check.attributes.context_extensions[STREAM_SESSION] = request.stream_session_id
    source = check.attributes.source
    source.address.socket_address.address = request.source_ip
    if request.client_certificate is not None:
        source.certificate = quote("".join(ssl.DER_cert_to_PEM_cert(each) for each in request.client_certificate.chain))
    http = check.attributes.request.http
    http.method, http.host, http.id = request.method, request.host_port, request_id
    http.path = f"{request.path}?{request.query}" if request.query else request.path
    headers = [(name, value) for name, value in request.headers if name not in _SEPARATE_HEADERS]
    headers += [(b"cookie", value) for value in cookie_headers]
    separate_values = (request.origin, request.access_control_request_method)
    headers += [(name, value.encode("latin-1")) for name, value in zip(_SEPARATE_HEADERS[1:], separate_values, strict=True) if value]
    for name, value in headers:
        http.header_map.headers.add(key=name.decode("latin-1"), raw_value=value)
    return check


def mcp_extension(message: McpMessage | None) -> dict[str, str]:
    """Return the context extension of an MCP message."""
    return {} if message is None else {MCP: json.dumps(message.fields())}


def parse_mcp_extension(extensions: Mapping[str, str]) -> McpMessage | None:
    """Return the MCP message that a proxy of gate has read.  Raises BadRequest if it is malformed."""
    if (written := extensions.get(MCP)) is None:
        return None
    try:
        return McpMessage.from_fields(json.loads(written))
    except (ValueError, TypeError, AttributeError):
        raise BadRequest("the MCP message is malformed") from None


def mcp_calls_extension(calls: Sequence[McpMessage]) -> dict[str, str]:
    return {PURPOSE: MCP_CALLS, MCP_CALLS: json.dumps([call.fields() for call in calls])}


def parse_mcp_calls(extensions: Mapping[str, str]) -> list[McpMessage]:
    """Return the calls that a proxy of gate asks about.  Raises BadRequest if they are malformed."""
    try:
        return [McpMessage.from_fields(fields) for fields in json.loads(extensions[MCP_CALLS])]
    except (LookupError, ValueError, TypeError, AttributeError):
        raise BadRequest("the MCP calls are malformed") from None


def parse_extension_token(check: bytes) -> str:
    """Return the token in the context extensions of a CheckRequest, "" if there is none or the message is invalid."""
    try:
        return external_auth_pb2.CheckRequest.FromString(check).attributes.context_extensions.get(ENVOY_TOKEN, "")
    except DecodeError:
        return ""


def from_check_request(check: external_auth_pb2.CheckRequest, default_ports: frozenset[int]) -> tuple[PolicyRequest, list[bytes]]:
    """Return the request and all Cookie headers.  Raises BadRequest if it is ambiguous."""
    attributes = check.attributes
    http = attributes.request.http
    headers = parse_headers(http)
    if any(has_c1_control(value) for _, value in headers):
        raise BadRequest("a header value contains a control character")
    last = dict(headers)
    path, _, query = http.path.partition("?")
    host = to_latin1_bytes(http.host)
    request = parse_request(
        http.method,
        host,
        to_latin1_bytes(path),
        to_latin1_bytes(query),
        default_ports,
        origin=last.get(b"origin", b""),
        access_control_request_method=last.get(b"access-control-request-method", b""),
        source_ip=attributes.source.address.socket_address.address,
        headers=headers,
        client_certificate=_certificate(attributes, host),
    )
    return request, [value for name, value in headers if name == b"cookie"]


def _certificate(attributes: attribute_context_pb2.AttributeContext, host: bytes) -> ClientCertificate | None:
    """Return the client certificate.  It is ignored if the connection was opened for another server name, as far as Envoy reports one."""
    if not (certificate := attributes.source.certificate):
        return None
    server_name = attributes.tls_session.sni
    if server_name and canonical_host(to_latin1_bytes(server_name))[0] != canonical_host(host)[0]:
        return None
    return parse_certificate(parse_pem_chain(certificate))


def parse_headers(http: Http) -> tuple[tuple[bytes, bytes], ...]:
    """Return the headers with names in lower case.

    With `encode_raw_headers` every value is included.  Otherwise Envoy has joined repeated values and replaced invalid UTF-8.
    """
    if sent_raw := http.header_map.headers:
        return tuple([(_name(header.key), header.raw_value or header.value.encode()) for header in sent_raw])
    return tuple([(_name(name), value.encode()) for name, value in http.headers.items() if not name.startswith(":")])


@bounded_lru_cache(4096, max_key_length=64)  # clients choose the names
def _name(name: str) -> bytes:
    return to_latin1_bytes(name.lower())


def to_latin1_bytes(text: str) -> bytes:
    """Return the original bytes if the text is latin-1, else UTF-8."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()
