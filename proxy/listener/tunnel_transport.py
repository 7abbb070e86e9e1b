"""asyncio-like transport of a connection that a protocol has taken over; supports half-close."""

from typing import TYPE_CHECKING, Any

from twisted.internet.interfaces import ITCPTransport

from proxy.listener.client_socket import ClientSocket

if TYPE_CHECKING:
    from proxy.listener.http1.http1_channel import Channel


class TunnelTransport:
    """Transport of a connection that was taken over from its channel."""

    __slots__ = ("_channel", "_is_plain", "_socket", "_transport")

    def __init__(self, channel: "Channel", client: ClientSocket):
        self._channel = channel
        self._transport = channel.transport
        self._socket = client
        self._is_plain = not client.is_tls and ITCPTransport.providedBy(channel.transport)

    def write(self, data: bytes) -> None:
        transport = self._transport
        if self._is_plain and transport.connected and not transport.dataBuffer and not transport._tempDataBuffer:
            # Twisted would poll the socket and send on the next turn of the loop, which doubles the cost of an echo.
            sent = transport.writeSomeData(data)
            # On an error Twisted fails again in its own write, and handles it.
            data = data[sent:] if isinstance(sent, int) else data
        transport.write(data)

    def pause_reading(self) -> None:
        self._channel.pause_reading()

    def resume_reading(self) -> None:
        self._channel.resume_reading()

    def write_eof(self) -> None:
        self._socket.shutdown_write()

    def close(self) -> None:
        self._channel.close()

    def abort(self) -> None:
        self._transport.abortConnection()

    def get_extra_info(self, name: str) -> Any:
        """Return the transport's extra info; only `socket` is known."""
        transport: Any = self._transport if self._is_plain else getattr(self._transport, "transport", None)
        return transport.getHandle() if name == "socket" and ITCPTransport.providedBy(transport) else None
