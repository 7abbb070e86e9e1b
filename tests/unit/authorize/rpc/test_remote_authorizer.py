"""A response of authorize counts only for the route that this proxy uses."""

from typing import Any

import grpc
import pytest
from envoy.service.auth.v3 import external_auth_pb2 as pb

from authorize.policy.mcp_message import McpMessage
from authorize.rpc import check_attributes
from authorize.rpc.remote_authorizer import RemoteAuthorizer
from databroker.replica import Replica
from databroker.store.memory import MemoryStore
from foundation.errors import BadRequest, BrokerError
from foundation.rpc.rpc_channel import RpcError
from tests.support.options import make_options
from tests.unit.authorize.builders import request

POLICY = [{"from": "https://app.example.com", "to": "http://up", "allow_any_authenticated_user": True}]
STEP = {"rule": "allow_any_authenticated_user", "value": 1, "reason": "SIGNED_IN"}


class Channel:
    """Fake that responds with this metadata or fails, and records the requests."""

    def __init__(self, metadata: dict[str, Any] | None = None, error: Exception | None = None):
        self.metadata, self.error, self.requests = metadata, error, []

    async def call(self, method: str, check_request: pb.CheckRequest, answer: Any, *, idempotent: bool) -> pb.CheckResponse:
        self.requests.append(check_request)
        if self.error is not None:
            raise self.error
        response = pb.CheckResponse()
        response.dynamic_metadata.update(self.metadata or {})
        return response


class SeenReplica(Replica):
    sync_token = "life:7"


def authorizer(tmp_path, channel: Any) -> RemoteAuthorizer:
    return RemoteAuthorizer(make_options(tmp_path, policy=POLICY), channel, SeenReplica(MemoryStore()))


async def test_route_and_sync_position_are_sent_with_the_check(tmp_path):
    channel = Channel()
    remote = authorizer(tmp_path, channel)
    (route,) = remote.routes.routes()
    channel.metadata = {"outcome": "ALLOWED", "route": route.id, "trace": [STEP]}
    incoming = request(mcp=McpMessage("tools/call", tool="search"))
    assert (await remote.check(incoming, [])).decision.is_allowed
    extensions = channel.requests[0].attributes.context_extensions
    assert (extensions[check_attributes.ROUTE], extensions[check_attributes.SYNC_TOKEN]) == (route.id, "life:7")
    assert check_attributes.parse_mcp_extension(extensions) == incoming.mcp


@pytest.mark.parametrize(
    "change",
    [
        {"route": "another"},
        {"route": ""},
        {"outcome": "WHATEVER"},
        {"outcome": "NO_ROUTE"},
        {"trace": []},
        {"trace": [{**STEP, "reason": "UNHEARD_OF"}]},
        {"trace": ["text"]},
        {"identity": {"user_id": "oidc/1"}},
    ],
    ids=repr,
)
async def test_unknown_response_raises(tmp_path, change):
    channel = Channel()
    remote = authorizer(tmp_path, channel)
    channel.metadata = {"outcome": "ALLOWED", "route": remote.routes.routes()[0].id, "trace": [STEP], **change}
    with pytest.raises(BrokerError):
        await remote.check(request(), [])


async def test_unknown_identity_fields_are_ignored(tmp_path):
    channel = Channel()
    remote = authorizer(tmp_path, channel)
    identity = {"session_id": "s", "user_id": "oidc/1", "subject": "1", "provider": "oidc", "expires_at": 9.0, "shoe_size": 43}
    channel.metadata = {"outcome": "ALLOWED", "route": remote.routes.routes()[0].id, "trace": [STEP], "identity": identity}
    found = (await remote.check(request(), [])).identity
    assert found is not None
    assert (found.session_id, found.user_id, found.expires_at) == ("s", "oidc/1", 9.0)


async def test_nothing_at_all_is_no_permission(tmp_path):
    with pytest.raises(BrokerError):
        await authorizer(tmp_path, Channel({})).check(request(), [])


@pytest.mark.parametrize(
    ("code", "kind"),
    [(grpc.StatusCode.INVALID_ARGUMENT, BadRequest), (grpc.StatusCode.UNAVAILABLE, BrokerError), (grpc.StatusCode.UNKNOWN, BrokerError)],
)
async def test_failures_map_to_errors(tmp_path, code, kind):
    with pytest.raises(kind):
        await authorizer(tmp_path, Channel(error=RpcError(code, "x"))).check(request(), [])


async def test_request_without_route_is_decided_locally(tmp_path):
    channel = Channel()
    assert (await authorizer(tmp_path, channel).check(request(host="unknown.example.com"), [])).decision.compiled_route is None
    assert channel.requests == []
