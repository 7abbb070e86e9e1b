"""Requests as Envoy tells them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from envoy.service.ext_proc.v3 import external_processor_pb2 as pb

from authorize.service import AuthorizeService
from databroker.client import LocalBroker
from databroker.replica import Replica
from databroker.store.memory import MemoryStore
from foundation.crypto.signing_key import SigningKey
from proxy.envoy.ext_proc import ExtProcServer
from proxy.envoy.internal_listener import InternalListener
from proxy.planes.forwarding_resources import ForwardingResources
from proxy.service import ProxyService
from tests.support.options import make_options
from tests.support.signed_in import sign_in
from tests.unit.proxy.envoy.stage import ROUTES, TOKEN, Stage

Ask = Callable[..., pb.ProcessingRequest]


def asked(
    path: str = "/",
    *headers: tuple[str, str],
    host: str = "app.example.com",
    method: str = "GET",
    peer: str = "192.0.2.7:5000",
    server_name: str = "app.example.com",
    has_body: bool = False,
) -> pb.ProcessingRequest:
    message = pb.ProcessingRequest()
    message.request_headers.end_of_stream = not has_body
    pseudo = ((":authority", host), (":path", path), (":method", method), (":scheme", "https"))
    for name, value in (*pseudo, *headers):
        message.request_headers.headers.headers.add(key=name, raw_value=value.encode("latin-1"))
    fields: dict[str, Any] = {"source.address": peer, "connection.requested_server_name": server_name}
    message.attributes["envoy.filters.http.ext_proc"].update(fields)
    return message


def answered(status: int, *headers: tuple[str, str], details: str = "via_upstream") -> pb.ProcessingRequest:
    message = pb.ProcessingRequest()
    for name, value in ((":status", str(status)), *headers):
        message.response_headers.headers.headers.add(key=name, raw_value=value.encode("latin-1"))
    message.attributes["envoy.filters.http.ext_proc"].update({"response.code_details": details})
    return message


@pytest.fixture
def ask() -> Ask:
    return asked


@pytest.fixture
def answer() -> Ask:
    return answered


@pytest.fixture
async def stage(tmp_path: Path) -> Stage:
    options = make_options(tmp_path, policy=ROUTES, data_plane="envoy", jwt_claims_headers=["email"])
    broker, resources = LocalBroker(MemoryStore()), ForwardingResources()
    authorize = AuthorizeService(options, Replica(broker), SigningKey.from_options(options))
    service = ProxyService(options, authorize, resources, lambda: 0.0)

    async def application(*_: object) -> None:
        raise AssertionError("nobody comes in")

    internal_listener = InternalListener(application, "https")
    ext_proc = ExtProcServer(
        lambda: service, internal_listener, lambda upstream, route: f"to-{upstream.host}-{route.upstream_http2}", TOKEN, "https"
    )
    return Stage(ext_proc, internal_listener, await sign_in(broker, options), resources.streams)


def call_of_grpc(host: str) -> pb.ProcessingRequest:
    return asked("/in/S/M", ("content-type", "application/grpc"), ("te", "trailers"), host=host, method="POST", has_body=True)


@pytest.fixture
def grpc_call() -> Ask:
    return call_of_grpc
