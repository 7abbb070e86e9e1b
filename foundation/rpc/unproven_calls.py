"""Calls of callers that have proven nothing yet: refused without reading, or read within bounds.

gRPC reads the whole message before it calls a handler of one message.  A handler of a stream decides itself what is read, and while nothing
is read the client can send no more than the first flow control window of its stream (64 KiB).
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast
from weakref import WeakValueDictionary

import grpc

from foundation.telemetry.bounded_log import BoundedLog

MAX_READS, MAX_READS_PER_ADDRESS = 64, 16
READ_TIMEOUT = 3.0  # seconds, waiting for a turn included: of what a client sends at once nothing waits


def refusal(reason: str) -> grpc.RpcMethodHandler:
    """Return a handler that refuses a call of any kind without reading its message."""

    async def refuse(_: Any, context: grpc.aio.ServicerContext) -> bytes:
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, reason)
        raise AssertionError("abort raises")

    return grpc.stream_unary_rpc_method_handler(refuse)


class BoundedReader:
    """Reader of the messages of callers that have proven nothing: of some at once, and each for a short time."""

    def __init__(self) -> None:
        self._late = BoundedLog("grpc request timed out")
        self._turns = asyncio.Semaphore(MAX_READS)
        self._turns_by_address = WeakValueDictionary[str, asyncio.Semaphore]()

    def bounded(self, handler: grpc.RpcMethodHandler) -> grpc.RpcMethodHandler:
        """Return the handler with its messages read within the bounds."""
        read, write = handler.request_deserializer or bytes, handler.response_serializer
        if handler.request_streaming:

            async def many(_: Any, context: grpc.aio.ServicerContext) -> AsyncIterator[Any]:
                async for answer in handler.stream_stream(self._messages(read, context), context):
                    yield answer

            return grpc.stream_stream_rpc_method_handler(many, response_serializer=write)
        behavior: Any = handler.unary_stream if handler.response_streaming else handler.unary_unary

        async def one(_: Any, context: grpc.aio.ServicerContext) -> Any:
            return await behavior(read(await self._message(context)), context)

        made = grpc.stream_stream_rpc_method_handler if handler.response_streaming else grpc.stream_unary_rpc_method_handler
        return made(one, response_serializer=write)

    async def _messages(self, read: Any, context: grpc.aio.ServicerContext) -> AsyncIterator[Any]:
        while (message := await self._read(context)) is not grpc.aio.EOF:
            yield read(message)

    async def _message(self, context: grpc.aio.ServicerContext) -> bytes:
        message = await self._read(context)
        if message is grpc.aio.EOF:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the call has no message")
        return cast(bytes, message)

    async def _read(self, context: grpc.aio.ServicerContext) -> Any:
        address = context.peer().rpartition(":")[0]
        turns = self._turns_by_address.setdefault(address, asyncio.Semaphore(MAX_READS_PER_ADDRESS))
        try:
            async with asyncio.timeout(READ_TIMEOUT), turns, self._turns:
                return await context.read()
        except TimeoutError:
            self._late.tell(client=address)
        await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "the message did not arrive in time")
        raise AssertionError("abort raises")
