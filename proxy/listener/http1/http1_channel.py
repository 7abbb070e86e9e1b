"""HTTP/1.1 connection of a client: which bytes are which request, who may send now, and when it ends.

state       | bytes go to                     | deadline                          | then
head        | the head, checked as it grows   | timeout_idle; timeout_read from   | exchange, or refused
            |                                 | the head's first byte             |
exchange    | the body; later ones wait       | timeout_read a gap, only while    | head, drain or closing
            |                                 | the application wants body        |
drain       | nobody: answered early, little  | DRAIN_SECONDS                     | head or closing
            | of the body is left             |                                   |
closing     | nobody                          | LINGER_SECONDS                    | closed
tunnel      | who took it over: 101, CONNECT  | none                              | closing, or closed
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
from proxy.listener.fair_selector import Priority, SlowReader
from proxy.listener.half_close import PlainHalfClose
from proxy.listener.http1.exchange import Exchange
from proxy.listener.http1.rejection_log import record_rejection
from proxy.listener.http1.request_body import Body, ChunkedBody, LengthBody, is_short
from proxy.listener.http1.request_head import HeadSearch, RequestHead, RequestRejected
from proxy.listener.http1.response_head import ResponseHead, error_response
from proxy.listener.listener_context import ListenerContext, TunnelProtocol, scope_address
from proxy.listener.tunnel_transport import TunnelTransport


@implementer(IHandshakeListener, IPushProducer)
class Channel(Protocol):
    """HTTP/1.1 connection, a Twisted protocol; as a push producer it is told when the transport's send buffer is full."""

    def __init__(self, context: ListenerContext):
        self.context = context
        self.scheme = "http"
        self.client: list[Any] | None = None
        self.server: list[Any] | None = None
        self.is_write_paused = self._is_closing = False
        self._is_read_paused = self._closes_after_answer = False
        self._buffer, self._heads, self._has_begun_head = bytearray(), HeadSearch(), False
        self._exchange: Exchange | None = None
        self._body: Body | None = None
        self.tunnel: TunnelProtocol | None = None
        self._window, self._window_bytes = context.get_state().limits.read_timeout, 0
        self._linger_left = listener_limits.LINGER_BYTES

    def __conform__(self, interface: object) -> PlainHalfClose | None:
        return PlainHalfClose(self) if interface is IHalfCloseableProtocol and self.tunnel is not None else None

    # Twisted calls these.

    def connectionMade(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._deadline, self._socket = Deadline(self.loop), ClientSocket(self.transport)
        self._priority = Priority(self.loop, self._socket.descriptor)
        self._slow_reader = SlowReader(self.loop, self._priority)
        self.scheme = "https" if self._socket.is_tls else "http"
        self.client, self.server = scope_address(self.transport.getPeer()), scope_address(self.transport.getHost())
        self.transport.registerProducer(self, True)
        self.context.channels.add(self)
        self._deadline.start(self.context.get_state().limits.read_timeout, self._close_idle)

    def handshakeCompleted(self) -> None:  # TLS only: a slow handshake takes nothing from the head's time
        if not self._is_closing:
            self._deadline.start(self.context.get_state().limits.read_timeout, self._close_idle)

    def dataReceived(self, data: bytes) -> None:
        if self.tunnel is not None:
            self.tunnel.data_received(data)
        elif self._is_closing:
            self._linger_left -= len(data)
            if self._linger_left < 0:
                self.transport.abortConnection()
        elif self._body is not None:
            self._feed(data)
        else:
            self._buffer += data
            if self._exchange is None and not self.is_write_paused:
                self._next_request()
            elif len(self._buffer) > listener_limits.BODY_BUFFER_BYTES:
                self.pause_reading()

    def connectionLost(self, reason: object = None) -> None:
        self._is_closing = True
        self._deadline.close()
        self._slow_reader.end()
        self.context.channels.discard(self)
        if not self.context.channels:
            self.context.all_closed.set()
        self._lose_tunnel()
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.lose()

    def pauseProducing(self) -> None:
        self.is_write_paused = True
        self._slow_reader.begin(self.context.get_state().limits.idle_timeout, self.transport.abortConnection)
        if self.tunnel is not None:
            self.tunnel.pause_writing()

    def resumeProducing(self) -> None:
        self.is_write_paused = False
        self._slow_reader.end()
        if self._is_closing:
            self._half_close()
        elif self.tunnel is not None:
            self.tunnel.resume_writing()
        elif self._exchange is not None:
            self._exchange.writable()
        else:
            self.resume_reading()
            self._next_request()

    def stopProducing(self) -> None:  # Twisted calls this, too, when the connection is lost, and before connectionLost
        self._lose_tunnel()
        self.close()

    # The exchange calls these, and the end of a tunnel.

    def write(self, data: bytes) -> None:
        self.transport.write(data)

    def wait_for_body(self, exchange: Exchange) -> None:
        exchange.send_continue()
        self.resume_reading()
        self._deadline.start(self._window, partial(self._too_late, "body"))

    def body_unwanted(self, exchange: Exchange) -> None:
        if exchange is self._exchange and not exchange.is_answered and (left := self._deadline.clear()) is not None:
            self._window = left

    def pause_reading(self) -> None:
        if not self._is_read_paused:
            self._is_read_paused = True
            self.transport.pauseProducing()

    def resume_reading(self) -> None:
        if self._is_read_paused:
            self._is_read_paused = False
            self.transport.resumeProducing()

    def begin_tunnel(self, protocol: TunnelProtocol) -> tuple[TunnelTransport, bytes]:
        """Hand every byte from now on to the protocol; returned with the connection are those that have come already."""
        self.tunnel = protocol
        sent_ahead, self._buffer = bytes(self._buffer), bytearray()
        self._deadline.close()
        self._priority.promote()
        self.resume_reading()
        if self.context.is_stopping:
            self.loop.call_soon(protocol.stopped)
        return TunnelTransport(self, self._socket), sent_ahead

    def closes_after(self, head: RequestHead, response: ResponseHead) -> bool:
        """Connection: close.  Whether it ends with this response; decided once, when its head is written."""
        # Without our 100 the client may or may not send the body: nothing after it could be told apart.
        is_drained = self._body is None or (not head.expects_continue and is_short(self._body))
        self._closes_after_answer = head.wants_close or response.wants_close or self.context.is_stopping or not is_drained
        return self._closes_after_answer

    def answered(self) -> None:
        if self._closes_after_answer:
            self.close()
        elif self._body is not None:
            self.resume_reading()
            self._deadline.start(min(listener_limits.DRAIN_SECONDS, self.context.get_state().limits.read_timeout), self.close)
        else:
            self._await_request()

    def refuse(self, refused: RequestRejected) -> None:
        """Answer for the application where it has not begun to; close in any case."""
        exchange = self._exchange
        if exchange is None or not exchange.is_started:
            if exchange is None:
                record_rejection(refused, self.client)
            is_head = exchange.head.method == b"HEAD" if exchange is not None else self._buffer.startswith(b"HEAD ")
            self.write(error_response(refused, with_body=not is_head))
            (self.context if exchange is None else exchange).record_rejection(refused.status)
        self.close()

    def close(self) -> None:
        """Send what was written, end our side, and then read on for a bounded while."""
        if self._is_closing:
            return
        self._is_closing = True
        exchange, self._exchange, self._body, self.tunnel = self._exchange, None, None, None
        self._buffer.clear()
        self._deadline.clear()
        if not self.is_write_paused:
            self._half_close()
        if exchange is not None and not exchange.is_answered:
            exchange.lose()

    def finish_soon(self) -> None:
        """Shutdown of the listener: an idle connection closes now, a busy one after its answer."""
        self._closes_after_answer = True
        if self.tunnel is not None:
            self.tunnel.stopped()
        elif self._exchange is None:
            self._close_idle()

    def _close_idle(self) -> None:
        """Nothing was said that a reset could destroy, so there is nothing to linger for."""
        self.close()
        if not self.is_write_paused:
            self._let_go()

    def _half_close(self) -> None:
        self._socket.end_writing()
        self.resume_reading()
        self._deadline.start(listener_limits.LINGER_SECONDS, self._let_go)

    def _let_go(self) -> None:
        # A slow reader still gets what is in the send buffer, within timeout_idle.
        self._deadline.start(self.context.get_state().limits.idle_timeout, self.transport.abortConnection)
        self._socket.close()

    def _lose_tunnel(self) -> None:
        tunnel, self.tunnel = self.tunnel, None
        if tunnel is not None:
            tunnel.connection_lost(None)

    # Reading.

    def _await_request(self) -> None:
        self._exchange = None
        self._priority.promote()
        self._deadline.start(self.context.get_state().limits.idle_timeout, self._close_idle)
        self.resume_reading()
        if self._buffer:
            self._next_request()

    def _next_request(self) -> None:
        # Requests sent ahead wait until the client has read the answers before them.
        if self.is_write_paused or not self._buffer:
            return
        try:
            found = self._heads.find(self._buffer)
            if found is not None:
                self._begin(*found)
            elif not self._has_begun_head:
                self._has_begun_head = True
                self._priority.demote()
                self._deadline.start(self.context.get_state().limits.read_timeout, partial(self._too_late, "head"))
        except RequestRejected as refused:
            self.refuse(refused)

    def _begin(self, head: RequestHead, body_start: int) -> None:
        rest, content, body = bytes(self._buffer[body_start:]), b"", None
        if head.body_length != 0:
            body = ChunkedBody() if head.body_length is None else LengthBody(head.body_length)
            # Before the application starts: a body that is broken already is refused like a broken head.
            content, rest = body.feed(rest)
        self._deadline.clear()
        self._buffer, self._has_begun_head = bytearray(rest), False
        self._body = None if body is None or body.finished else body
        self._window, self._window_bytes = self.context.get_state().limits.read_timeout, 0
        self._exchange = Exchange(self, head)
        self._exchange.take(content, is_complete=self._body is None)
        self._exchange.start()
        self._limit_reading()

    def _feed(self, data: bytes) -> None:
        body, exchange = self._body, self._exchange
        if body is None or exchange is None:
            return
        try:
            content, rest = body.feed(data)
        except RequestRejected as refused:
            self.refuse(refused)
            return
        self._count_for_floor(len(data))
        if body.finished:
            self._body = None
            self._buffer += rest
        else:
            self._priority.after_body_bytes(len(data))
        if exchange.is_answered:
            if body.finished:
                self._await_request()
            return
        exchange.take(content, is_complete=body.finished)
        self._limit_reading()

    def _count_for_floor(self, size: int) -> None:
        self._window_bytes += size
        if self._window_bytes >= listener_limits.MIN_BODY_PROGRESS_BYTES and self._exchange is not None and not self._exchange.is_answered:
            self._window, self._window_bytes = self.context.get_state().limits.read_timeout, 0
            self._deadline.clear()

    def _limit_reading(self) -> None:
        if self._exchange is not None and self._exchange.buffered + len(self._buffer) >= listener_limits.BODY_BUFFER_BYTES:
            self.pause_reading()

    def _too_late(self, what: str) -> None:
        self.refuse(RequestRejected(408, f"The request {what} took too long."))
