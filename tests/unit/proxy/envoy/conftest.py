"""Requests as Envoy tells them."""

from collections.abc import Callable
from typing import Any

import pytest
from envoy.service.ext_proc.v3 import external_processor_pb2 as pb

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
