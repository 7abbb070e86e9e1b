"""HTTP/1.1 connection of a client, as a state machine.

state       | received bytes                  | deadline                          | next state
head        | parsed into the head            | timeout_idle; timeout_read from   | exchange, or rejected
            |                                 | the head's first byte             |
exchange    | fed to the body; later requests | timeout_read, only while the      | head, drain or closing
            | wait                            | application waits for body        |
drain       | dropped: early response, little | DRAIN_SECONDS                     | head or closing
            | of the body is left             |                                   |
closing     | dropped                         | LINGER_SECONDS                    | closed
tunnel      | relayed, after 101 or CONNECT   | none                              | closing, or closed
"""

import asyncio
from functools import partial
from typing import Any

from twisted.internet.interfaces import IHalfCloseableProtocol, IHandshakeListener, IPushProducer
from twisted.internet.protocol import Protocol
from zope.interface import implementer

from proxy.listener import listener_limits
from proxy.listener.client_socket import ClientSocket
from proxy.listener.deadline import Deadline
from proxy.listener.fair_selector import PollPriority, WriteStallTimer
from proxy.listener.half_close import PlainHalfClose
from proxy.listener.http1.exchange import Exchange
from proxy.listener.http1.rejection_log import log_listener_rejection
from proxy.listener.http1.request_body import Body, ChunkedBody, LengthBody, is_drainable
from proxy.listener.http1.request_head import HeadReader, RequestHead, RequestRejected
from proxy.listener.http1.response_head import ResponseHead, error_response
from proxy.listener.listener_context import ListenerContext, TunnelProtocol, scope_address
from proxy.listener.tunnel_transport import TunnelTransport


@implementer(IHandshakeListener, IPushProducer)
class Channel(Protocol):
    """HTTP/1.1 connection, a Twisted protocol. As a push producer it is paused while the transport's send buffer is full."""

    def __init__(self, context: ListenerContext):
        self.context = context
        self.scheme = "http"
        self.client: list[Any] | None = None
        self.server: list[Any] | None = None
        self.is_write_paused = self._is_closing = False
        self._is_read_paused = self._close_after_response = False
        self._buffer, self._head_reader, self._is_head_started = bytearray(), HeadReader(), False
        self._exchange: Exchange | None = None
        self._body: Body | None = None
        self.tunnel: TunnelProtocol | None = None
        self._read_seconds_left, self._progress_bytes = context.get_settings().limits.read_timeout, 0
        self._linger_bytes_left = listener_limits.LINGER_BYTES

    def __conform__(self, interface: object) -> PlainHalfClose | None:
        return PlainHalfClose(self) if interface is IHalfCloseableProtocol and self.tunnel is not None else None

    # Called by Twisted.

    def connectionMade(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._deadline, self._socket = Deadline(self.loop), ClientSocket(self.transport)
        self._priority = PollPriority(self.loop, self._socket.descriptor)
        self._write_stall_timer = WriteStallTimer(self.loop, self._priority)
        self.scheme = "https" if self._socket.is_tls else "http"
        self.client, self.server = scope_address(self.transport.getPeer()), scope_address(self.transport.getHost())
        self.transport.registerProducer(self, True)
        self.context.channels.add(self)
        self._deadline.start(self.context.get_settings().limits.read_timeout, self._close_immediately)

    def handshakeCompleted(self) -> None:  # TLS only: the time of a slow handshake does not count against the head
        if not self._is_closing:
            self._deadline.start(self.context.get_settings().limits.read_timeout, self._close_immediately)

    def dataReceived(self, data: bytes) -> None:
        if self.tunnel is not None:
            self.tunnel.data_received(data)
        elif self._is_closing:
            self._linger_bytes_left -= len(data)
            if self._linger_bytes_left < 0:
                self.transport.abortConnection()
        elif self._body is not None:
            self._feed_body(data)
        else:
            self._buffer += data
            if self._exchange is None and not self.is_write_paused:
                self._start_next_request()
            elif len(self._buffer) > listener_limits.BODY_BUFFER_BYTES:
                self.pause_reading()

    def connectionLost(self, reason: object = None) -> None:
        self._is_closing = True
        self._deadline.close()
        self._write_stall_timer.stop()
        self.context.channels.discard(self)
        if not self.context.channels:
            self.context.all_closed.set()
        self._detach_tunnel()
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.disconnect()

    def pauseProducing(self) -> None:
        self.is_write_paused = True
        self._write_stall_timer.start(self.context.get_settings().limits.idle_timeout, self.transport.abortConnection)
        if self.tunnel is not None:
            self.tunnel.pause_writing()

    def resumeProducing(self) -> None:
        self.is_write_paused = False
        self._write_stall_timer.stop()
        if self._is_closing:
            self._close_write_side()
        elif self.tunnel is not None:
            self.tunnel.resume_writing()
        elif self._exchange is not None:
            self._exchange.on_writable()
        else:
            self.resume_reading()
            self._start_next_request()

    def stopProducing(self) -> None:  # Twisted also calls this when the connection is lost, before connectionLost
        self._detach_tunnel()
        self.close()

    # Called by the exchange, and by the transport of a tunnel.

    def write(self, data: bytes) -> None:
        self.transport.write(data)

    def wait_for_body(self, exchange: Exchange) -> None:
        exchange.send_continue()
        self.resume_reading()
        self._deadline.start(self._read_seconds_left, partial(self._on_read_timeout, "body"))

    def pause_body_timer(self, exchange: Exchange) -> None:
        if exchange is self._exchange and not exchange.is_response_complete and (remaining := self._deadline.clear()) is not None:
            self._read_seconds_left = remaining

    def pause_reading(self) -> None:
        if not self._is_read_paused:
            self._is_read_paused = True
            self.transport.pauseProducing()

    def resume_reading(self) -> None:
        if self._is_read_paused:
            self._is_read_paused = False
            self.transport.resumeProducing()

    def start_tunnel(self, protocol: TunnelProtocol) -> tuple[TunnelTransport, bytes]:
        """Hand all further bytes to the protocol. Return the transport and the bytes already received."""
        self.tunnel = protocol
        client_prefix, self._buffer = bytes(self._buffer), bytearray()
        self._deadline.close()
        self._priority.promote()
        self.resume_reading()
        if self.context.is_stopping:
            self.loop.call_soon(protocol.on_shutdown)
        return TunnelTransport(self, self._socket), client_prefix

    def should_close(self, head: RequestHead, response: ResponseHead) -> bool:
        """Return whether the connection closes after this response. Decided once, when the response head is written."""
        # Without a 100 the client may or may not send the body, so the next request cannot be located.
        is_drained = self._body is None or (not head.expects_continue and is_drainable(self._body))
        self._close_after_response = head.wants_close or response.wants_close or self.context.is_stopping or not is_drained
        return self._close_after_response

    def on_response_complete(self) -> None:
        if self._close_after_response:
            self.close()
        elif self._body is not None:
            self.resume_reading()
            self._deadline.start(min(listener_limits.DRAIN_SECONDS, self.context.get_settings().limits.read_timeout), self.close)
        else:
            self._await_request()

    def reject(self, rejection: RequestRejected) -> None:
        """Respond in the application's place, unless its response has started, and close the connection."""
        exchange = self._exchange
        if exchange is None or not exchange.is_started:
            if exchange is None:
                log_listener_rejection(rejection, self.client)
            is_head = exchange.head.method == b"HEAD" if exchange is not None else self._buffer.startswith(b"HEAD ")
            self.write(error_response(rejection, with_body=not is_head))
            if exchange is None:
                self.context.count_rejection(rejection.status)
            else:
                exchange.set_final_status(rejection.status)
        self.close()

    def close(self) -> None:
        """Flush the send buffer, half-close, and linger for a bounded time."""
        if self._is_closing:
            return
        self._is_closing = True
        exchange, self._exchange, self._body, self.tunnel = self._exchange, None, None, None
        self._buffer.clear()
        self._deadline.clear()
        if not self.is_write_paused:
            self._close_write_side()
        if exchange is not None and not exchange.is_response_complete:
            exchange.disconnect()

    def shut_down(self) -> None:
        """Close an idle connection now and a busy one after its response, because the listener shuts down."""
        self._close_after_response = True
        if self.tunnel is not None:
            self.tunnel.on_shutdown()
        elif self._exchange is None:
            self._close_immediately()

    def _close_immediately(self) -> None:
        """Close without lingering, because no response is in flight that a reset could destroy."""
        self.close()
        if not self.is_write_paused:
            self._close_after_linger()

    def _close_write_side(self) -> None:
        self._socket.shutdown_write()
        self.resume_reading()
        self._deadline.start(listener_limits.LINGER_SECONDS, self._close_after_linger)

    def _close_after_linger(self) -> None:
        # A slow reader still gets the send buffer, within timeout_idle.
        self._deadline.start(self.context.get_settings().limits.idle_timeout, self.transport.abortConnection)
        self._socket.close()

    def _detach_tunnel(self) -> None:
        tunnel, self.tunnel = self.tunnel, None
        if tunnel is not None:
            tunnel.connection_lost(None)

    # Reading requests.

    def _await_request(self) -> None:
        self._exchange = None
        self._priority.promote()
        self._deadline.start(self.context.get_settings().limits.idle_timeout, self._close_immediately)
        self.resume_reading()
        if self._buffer:
            self._start_next_request()

    def _start_next_request(self) -> None:
        # Pipelined requests wait until the client has read the previous responses.
        if self.is_write_paused or not self._buffer:
            return
        try:
            parsed = self._head_reader.read(self._buffer)
            if parsed is not None:
                self._start_exchange(*parsed)
            elif not self._is_head_started:
                self._is_head_started = True
                self._priority.demote()
                self._deadline.start(self.context.get_settings().limits.read_timeout, partial(self._on_read_timeout, "head"))
        except RequestRejected as rejection:
            self.reject(rejection)

    def _start_exchange(self, head: RequestHead, body_start: int) -> None:
        rest, content, body = bytes(self._buffer[body_start:]), b"", None
        if head.body_length != 0:
            body = ChunkedBody() if head.body_length is None else LengthBody(head.body_length)
            # Before the application starts, because an already malformed body is rejected like a malformed head.
            content, rest = body.feed(rest)
        self._deadline.clear()
        self._buffer, self._is_head_started = bytearray(rest), False
        self._body = None if body is None or body.finished else body
        self._read_seconds_left, self._progress_bytes = self.context.get_settings().limits.read_timeout, 0
        self._exchange = Exchange(self, head)
        self._exchange.feed(content, is_complete=self._body is None)
        self._exchange.start()
        self._limit_reading()

    def _feed_body(self, data: bytes) -> None:
        body, exchange = self._body, self._exchange
        if body is None or exchange is None:
            return
        try:
            content, rest = body.feed(data)
        except RequestRejected as rejection:
            self.reject(rejection)
            return
        self._check_body_progress(len(data))
        if body.finished:
            self._body = None
            self._buffer += rest
        else:
            self._priority.on_body_bytes(len(data))
        if exchange.is_response_complete:
            if body.finished:
                self._await_request()
            return
        exchange.feed(content, is_complete=body.finished)
        self._limit_reading()

    def _check_body_progress(self, size: int) -> None:
        self._progress_bytes += size
        if (
            self._progress_bytes >= listener_limits.MIN_BODY_PROGRESS_BYTES
            and self._exchange is not None
            and not self._exchange.is_response_complete
        ):
            self._read_seconds_left, self._progress_bytes = self.context.get_settings().limits.read_timeout, 0
            self._deadline.clear()

    def _limit_reading(self) -> None:
        if self._exchange is not None and self._exchange.buffered + len(self._buffer) >= listener_limits.BODY_BUFFER_BYTES:
            self.pause_reading()

    def _on_read_timeout(self, part: str) -> None:
        self.reject(RequestRejected(408, f"The request {part} took too long."))
