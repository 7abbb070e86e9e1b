"""Timeouts of what Envoy carries.  It says so in its access log (envoy.service.accesslog.v3), to gate.

While it carries a request (envoy.service.ext_proc.v3) it tells only that it is over, however that came.
"""

import asyncio
from itertools import count
from typing import Any

import grpc
from envoy.data.accesslog.v3.accesslog_pb2 import AccessLogCommon
from envoy.service.accesslog.v3 import als_pb2 as pb
from google.protobuf.struct_pb2 import Struct

from proxy.envoy.authentication import grpc_service, require_our_envoy
from proxy.envoy.bootstrap import TYPE, Json
from proxy.forwarding.http import Ending

SERVICE = "envoy.service.accesslog.v3.AccessLogService"
# Under this name gate gives each request that Envoy carries a number, which no client can set and no upstream sees.
METADATA, _NUMBER = "gate", "number"
# Envoy writes it before it ends the call about the request; both come over one connection, but on calls of their own.
_PATIENCE = 1.0


def access_log(token: str) -> Json:
    """Access log of what a timeout cut off, alone, each at once; SI is `idle_timeout`, UT a timeout of the request's own."""
    return {
        "name": "envoy.access_loggers.http_grpc",
        "filter": {"response_flag_filter": {"flags": ["SI", "UT"]}},
        "typed_config": {
            "@type": f"{TYPE}extensions.access_loggers.grpc.v3.HttpGrpcAccessLogConfig",
            "common_config": {
                "log_name": "cuts",
                "transport_api_version": "V3",
                "grpc_service": grpc_service(token),
                "buffer_size_bytes": 0,
            },
        },
    }


class EnvoyTimeout:
    """Timeout of one carried request, if Envoy cut it off: which it was.  `metadata` is what Envoy is told of it, and repeats."""

    def __init__(self, number: str):
        self.number = number
        self.metadata = Struct()
        self.metadata.update({METADATA: {_NUMBER: number}})
        self._heard: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()

    def hear(self, ending: Ending) -> None:
        if not self._heard.done():
            self._heard.set_result(ending)

    async def ending(self) -> Ending | None:
        """Reason for the end, for who has seen the end and has reason to ask: None takes a moment."""
        await asyncio.wait([self._heard], timeout=_PATIENCE)
        return self._heard.result() if self._heard.done() else None


class EnvoyTimeouts:
    def __init__(self, token: str):
        self._token = token
        self._numbers = map(str, count(1))
        self._carried: dict[str, EnvoyTimeout] = {}

    def __repr__(self) -> str:
        return f"<EnvoyTimeouts of {len(self._carried)} carried>"

    def service(self) -> grpc.GenericRpcHandler:
        stream = grpc.stream_unary_rpc_method_handler(
            self.listen, pb.StreamAccessLogsMessage.FromString, pb.StreamAccessLogsResponse.SerializeToString
        )
        return grpc.method_handlers_generic_handler(SERVICE, {"StreamAccessLogs": stream})

    def begin(self) -> EnvoyTimeout:
        """Timeout of one request, known until `forget`."""
        envoy_timeout = EnvoyTimeout(next(self._numbers))
        self._carried[envoy_timeout.number] = envoy_timeout
        return envoy_timeout

    def forget(self, envoy_timeout: EnvoyTimeout) -> None:
        del self._carried[envoy_timeout.number]

    async def listen(self, requests: object, context: grpc.aio.ServicerContext) -> pb.StreamAccessLogsResponse:
        await require_our_envoy(context, self._token)
        message: Any
        while (message := await context.read()) is not grpc.aio.EOF:
            for entry in message.http_logs.log_entry:
                self._hear(entry.common_properties)
        return pb.StreamAccessLogsResponse()

    def _hear(self, said: AccessLogCommon) -> None:
        number = said.metadata.filter_metadata[METADATA].fields[_NUMBER].string_value
        if number in self._carried:
            self._carried[number].hear(Ending.SILENT if said.response_flags.stream_idle_timeout else Ending.TIMED_OUT)
