"""A judge without an Envoy: what Envoy would say is said by hand, and what gate answers is looked at."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
from envoy.service.accesslog.v3 import als_pb2 as als
from envoy.service.ext_proc.v3 import external_processor_pb2 as pb
from google.protobuf.struct_pb2 import Struct

from proxy.envoy.ext_proc import ExtProcServer
from proxy.envoy.internal_listener import InternalListener
from proxy.envoy.timeouts import METADATA
from proxy.planes.open_streams import OpenStreams
from tests.support.signed_in import SignedIn

TOKEN = "t" * 43
TO = {"to": "http://127.0.0.1:9"}
ROUTES = [
    {"from": "https://app.example.com", **TO, "allow_any_authenticated_user": True, "pass_identity_headers": True},
    {"from": "https://finance.example.com", **TO, "allowed_groups": ["finance"]},
    {"from": "https://open.example.com", "prefix": "/in", "prefix_rewrite": "/out", **TO, "allow_public_unauthenticated_access": True},
    {"from": "https://two.example.com", "to": ["http://127.0.0.1:9", "http://127.0.0.2:9"], "allow_public_unauthenticated_access": True},
    {"from": "https://rpc.example.com", **TO, "allow_public_unauthenticated_access": True, "upstream_http2": True},
    {"from": "https://patient.example.com", **TO, "allow_public_unauthenticated_access": True, "timeout": "1h"},
    {"from": "https://endless.example.com", **TO, "allow_public_unauthenticated_access": True, "timeout": "0s"},
    {"from": "https://watch.example.com", **TO, "allow_public_unauthenticated_access": True, "upstream_http2": True, "timeout": "0s"},
    {"from": "https://old.example.com", "redirect": {"https_redirect": True}, "allow_public_unauthenticated_access": True},
]


class Aborted(Exception):
    pass


class Envoy:
    """The other end of one call; what gate says is in `heard`."""

    def __init__(self, token: str = TOKEN):
        self._token = token
        self._told: asyncio.Queue[object] = asyncio.Queue()
        self.heard: asyncio.Queue[pb.ProcessingResponse] = asyncio.Queue()
        self.aborted: grpc.StatusCode | None = None

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return (("authorization", f"Bearer {self._token}"),)

    async def read(self) -> object:
        return await self._told.get()

    async def write(self, message: pb.ProcessingResponse) -> None:
        self.heard.put_nowait(message)

    async def abort(self, code: grpc.StatusCode, details: str) -> None:
        self.aborted = code
        raise Aborted

    async def says(self, message: pb.ProcessingRequest) -> pb.ProcessingResponse:
        self._told.put_nowait(message)
        return await asyncio.wait_for(self.heard.get(), 5)

    def logs(self, flag: str, metadata: Struct) -> None:
        """A line of its access log, about the request that gate said this of."""
        message = als.StreamAccessLogsMessage()
        common = message.http_logs.log_entry.add().common_properties
        setattr(common.response_flags, flag, True)
        common.metadata.filter_metadata[METADATA].CopyFrom(metadata[METADATA])
        self._told.put_nowait(message)

    def ends(self) -> None:
        self._told.put_nowait(grpc.aio.EOF)


class Stage:
    def __init__(self, ext_proc: ExtProcServer, internal_listener: InternalListener, ann: SignedIn, streams: OpenStreams):
        self.ext_proc, self.internal_listener, self.ann, self.streams = ext_proc, internal_listener, ann, streams

    def cookie(self, host: str) -> tuple[str, str]:
        return "cookie", self.ann.cookie(host)

    @asynccontextmanager
    async def call(self) -> AsyncIterator[tuple[Envoy, "asyncio.Task[None]"]]:
        envoy = Envoy()
        task = asyncio.ensure_future(self.ext_proc.process(None, envoy))  # type: ignore[arg-type]
        try:
            yield envoy, task
        finally:
            envoy.ends()
            await asyncio.wait([task], timeout=5)
            if task.done() and not task.cancelled():
                task.exception()

    async def first_answer(self, message: pb.ProcessingRequest) -> dict[str, bytes]:
        """The headers that gate sets; what it removes has None."""
        async with self.call() as (envoy, _):
            return written((await envoy.says(message)).request_headers)


def written(answer: pb.HeadersResponse) -> dict[str, Any]:
    mutation = answer.response.header_mutation
    return {each.header.key: each.header.raw_value for each in mutation.set_headers} | dict.fromkeys(mutation.remove_headers)
