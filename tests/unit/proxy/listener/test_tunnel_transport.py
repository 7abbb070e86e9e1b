"""A connection that became a tunnel: whose bytes are they, and how does it end?"""

import asyncio

import pytest
from OpenSSL import SSL
from twisted.internet.error import ConnectionDone
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.ssl import CertificateOptions
from twisted.internet.testing import StringTransport
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.python.failure import Failure

from foundation.values import CertificatePair, SecretBytes
from proxy.listener.half_close import HalfClosingTLS
from proxy.listener.http1.exchange import ClientGone
from proxy.listener.http1.http1_channel import Channel
from proxy.listener.listener_context import ListenerContext, ListenerSettings, default_settings
from proxy.listener.listener_limits import ListenerLimits
from proxy.listener.server import drain
from proxy.listener.tls.server_certificates import Certificates
from tests.support.certs import certificate_files

HANDSHAKE = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
ORDINARY = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


class Wire(StringTransport):
    is_half_closed = is_aborted = False

    def setTcpNoDelay(self, is_on):
        pass

    def loseWriteConnection(self):
        self.is_half_closed = True

    def abortConnection(self):
        self.is_aborted = True


class TakenOver:
    """Protocol that takes the connection over."""

    def __init__(self, *headers):
        self.headers = headers
        self.calls = []
        self.opened, self.finished = asyncio.Event(), asyncio.Event()
        self.wire = Wire()
        self.ended = []
        self.context = ListenerContext(
            self.application, default_settings, lambda host, method, status, *_: self.ended.append((host, method, status))
        )
        self.channel = Channel(self.context)
        self.channel.makeConnection(self.wire)

    async def application(self, scope, receive, send):
        self.scope, self.send = scope, send
        self.end, self.ahead = scope["extensions"]["gate.tunnel"]["take_over"](self.headers, self)
        self.opened.set()
        await self.finished.wait()

    async def open(self, ahead=b""):
        self.channel.dataReceived(HANDSHAKE + ahead)
        async with asyncio.timeout(3):
            await self.opened.wait()

    def data_received(self, data):
        self.calls.append(data)

    def eof_received(self):
        self.calls.append("end")
        return True

    def pause_writing(self):
        self.calls.append("pause")

    def resume_writing(self):
        self.calls.append("resume")

    def connection_lost(self, error):
        self.calls.append("lost")

    def on_shutdown(self):
        self.calls.append("stopped")


async def turns():
    for _ in range(5):
        await asyncio.sleep(0)


async def test_responds_101_and_passes_on_all_bytes():
    accepted = TakenOver((b"sec-websocket-accept", b"x"), (b"content-length", b"5"))
    await accepted.open(ORDINARY)
    accepted.channel.dataReceived(ORDINARY)
    accepted.end.write(b"frames")
    head, _, rest = accepted.wire.value().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n")
    assert b"sec-websocket-accept: x" in head
    assert b"content-length" not in head
    assert (rest, accepted.ahead, accepted.calls) == (b"frames", ORDINARY, [ORDINARY])
    accepted.channel.connectionLost()


async def test_upgrade_is_counted_once_on_response():
    accepted = TakenOver()
    await accepted.open()
    assert accepted.ended == [(b"x", b"GET", 101)]
    accepted.finished.set()
    await turns()
    accepted.channel.connectionLost()
    await turns()
    assert len(accepted.ended) == 1


async def test_tunnel_extension_is_offered_for_handshakes_only():
    scopes = []

    async def application(scope, receive, send):
        scopes.append(scope)

    channel = Channel(ListenerContext(application, default_settings))
    channel.makeConnection(Wire())
    channel.dataReceived(ORDINARY)
    await turns()
    assert "gate.tunnel" not in scopes[0]["extensions"]
    channel.connectionLost()


async def test_back_pressure_works_both_ways():
    accepted = TakenOver()
    await accepted.open()
    accepted.channel.pauseProducing()
    accepted.channel.resumeProducing()
    accepted.end.pause_reading()
    assert accepted.wire.producerState == "paused"
    accepted.end.resume_reading()
    assert accepted.wire.producerState == "producing"
    assert accepted.calls == ["pause", "resume"]
    accepted.channel.connectionLost()


@pytest.mark.parametrize("how", ["stopProducing", "connectionLost"])
async def test_lost_connection_is_reported_once(how):
    accepted = TakenOver()
    await accepted.open()
    getattr(accepted.channel, how)()
    accepted.channel.connectionLost()
    assert accepted.calls == ["lost"]


async def test_nothing_is_sent_after_close():
    accepted = TakenOver()
    await accepted.open()
    accepted.end.close()
    accepted.channel.dataReceived(ORDINARY)
    accepted.channel.connectionLost()
    assert accepted.wire.is_half_closed
    assert accepted.calls == []


async def test_tunnel_closes_with_the_application():
    accepted = TakenOver()
    await accepted.open()
    accepted.finished.set()
    await turns()
    assert accepted.wire.is_half_closed
    accepted.channel.connectionLost()


async def test_abort_sends_no_more_data():
    accepted = TakenOver()
    await accepted.open()
    accepted.end.abort()
    assert accepted.wire.is_aborted
    accepted.channel.connectionLost()


def test_abort_after_connection_lost_is_no_error():
    """A tunnel may be aborted just after its client has disconnected."""
    factory = TLSMemoryBIOFactory(CertificateOptions(), False, Factory.forProtocol(Protocol))
    factory.protocol = HalfClosingTLS
    connection = factory.buildProtocol(None)
    connection.makeConnection(Wire())
    connection.connectionLost(Failure(ConnectionDone()))
    connection.abortConnection()
    assert connection.transport.is_aborted


async def test_timeouts_of_requests_do_not_count():
    accepted = TakenOver()
    accepted.context.get_settings = lambda: ListenerSettings(ListenerLimits(read_timeout=0.01, write_timeout=0.01, idle_timeout=0.01), None)
    await accepted.open()
    await asyncio.sleep(0.04)
    assert not accepted.wire.is_half_closed
    assert not accepted.wire.is_aborted
    accepted.channel.connectionLost()


async def test_shutdown_reaches_late_tunnel():
    early = TakenOver()
    await early.open()
    await drain(early.context, 0)
    assert early.calls == ["stopped"]
    late = TakenOver()
    late.context.is_stopping = True
    await late.open()
    await turns()
    assert late.calls == ["stopped"]
    for each in (early, late):
        each.channel.connectionLost()


async def test_malformed_headers_or_disconnect_send_nothing():
    accepted = TakenOver((b"x", b"a\r\nset-cookie: _gate=forged"))
    accepted.channel.dataReceived(HANDSHAKE)
    await turns()
    assert b"101" not in accepted.wire.value()
    accepted.channel.connectionLost()
    with pytest.raises(ClientGone):
        accepted.scope["extensions"]["gate.tunnel"]["take_over"]((), accepted)


class Counted:
    """OpenSSL connection that records how much it received."""

    def __init__(self, connection):
        self.connection, self.received_bytes = connection, 0

    def __getattr__(self, name):
        return getattr(self.connection, name)

    def bio_write(self, data):
        self.received_bytes += len(data)
        return self.connection.bio_write(data)


class TlsClient:
    """Without a network: `say` brings what the client has written to the server."""

    def __init__(self, directory, channel):
        files = certificate_files(directory, "localhost")
        certificates = Certificates([CertificatePair(files.certificate.read_bytes(), SecretBytes(files.key.read_bytes()), "a test")])
        factory = TLSMemoryBIOFactory(certificates, False, Factory.forProtocol(lambda: channel))
        factory.protocol = HalfClosingTLS
        self.wire, self.tls = Wire(), SSL.Connection(SSL.Context(SSL.TLS_CLIENT_METHOD), None)
        self.server = factory.buildProtocol(None)
        self.server.makeConnection(self.wire)
        self.server._tlsConnection = self.counted = Counted(self.server._tlsConnection)
        self.tls.set_connect_state()
        with pytest.raises(SSL.WantReadError):
            self.tls.do_handshake()
        self.emit()
        self.tls.bio_write(self.wire.value())
        self.wire.clear()
        self.tls.do_handshake()
        self.emit()

    def emit(self):
        self.server.dataReceived(self.tls.bio_read(65536))


async def test_data_after_close_notify_is_dropped(tmp_path):
    """OpenSSL would buffer unread data without limit."""
    accepted = TakenOver()
    channel = Channel(accepted.context)
    client = TlsClient(tmp_path, channel)
    client.tls.send(HANDSHAKE)
    client.emit()
    async with asyncio.timeout(3):
        await accepted.opened.wait()
    client.tls.shutdown()
    client.emit()
    assert accepted.calls == ["end"]
    before = client.counted.received_bytes
    client.server.dataReceived(bytes(1000))
    assert client.counted.received_bytes == before
    accepted.end.write(bytes(100_000))  # more than is gathered for one write
    assert len(client.wire.value()) > 100_000
    accepted.end.abort()
    accepted.finished.set()
    await turns()
