"""Taken-over connection as its new owner uses it: like a transport of asyncio, one direction of which may end first."""

from typing import TYPE_CHECKING, Any

from twisted.internet.interfaces import ITCPTransport

from proxy.listener.client_socket import ClientSocket

if TYPE_CHECKING:
    from proxy.listener.http1.http1_channel import Channel


class TunnelTransport:
    __slots__ = ("_channel", "_is_plain", "_socket", "_transport")

    def __init__(self, channel: "Channel", client: ClientSocket):
        self._channel = channel
        self._transport = channel.transport
        self._socket = client
        self._is_plain = not client.is_tls and ITCPTransport.providedBy(channel.transport)

    def write(self, data: bytes) -> None:
        transport = self._transport
        if self._is_plain and transport.connected and not transport.dataBuffer and not transport._tempDataBuffer:
            # Twisted itself sends on the loop's next turn and watches the socket for it: half of what an echo costs.
            sent = transport.writeSomeData(data)
            # An error is found again by Twisted, which knows what to do.
            data = data[sent:] if isinstance(sent, int) else data
        transport.write(data)

    def pause_reading(self) -> None:
        self._channel.pause_reading()

    def resume_reading(self) -> None:
        self._channel.resume_reading()

    def write_eof(self) -> None:
        self._socket.end_writing()

    def close(self) -> None:
        self._channel.close()

    def abort(self) -> None:
        self._transport.abortConnection()

    def get_extra_info(self, name: str) -> Any:
        """Extra info of a transport; knows `socket` alone."""
        transport: Any = self._transport if self._is_plain else getattr(self._transport, "transport", None)
        return transport.getHandle() if name == "socket" and ITCPTransport.providedBy(transport) else None
