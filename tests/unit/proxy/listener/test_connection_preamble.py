"""A preamble protocol hands the connection over completely."""

from twisted.internet.protocol import Factory, Protocol
from twisted.internet.testing import StringTransport

from proxy.listener.connection_preamble import PreambleFactory, PreambleProtocol
from tests.support.eventually import eventually


class Remembers(Protocol):
    def __init__(self) -> None:
        self.seen = b""

    def dataReceived(self, data: bytes) -> None:
        self.seen += data


class ThreeBytes(PreambleProtocol):
    def __init__(self, factory: Factory, seconds: float = 60):
        super().__init__(seconds)
        self.factory = factory

    def inspect(self) -> None:
        if len(self.received) >= 3:
            self.switch_to(self.factory, self.received)


def connected(first: PreambleProtocol) -> StringTransport:
    transport = StringTransport()
    transport.protocol = first
    first.makeConnection(transport)
    return transport


async def test_switching_protocols_loses_no_bytes():
    first = ThreeBytes(Factory.forProtocol(Remembers))
    transport = connected(first)
    for part in (b"a", b"b", b"cd"):
        transport.protocol.dataReceived(part)
    assert isinstance(transport.protocol, Remembers)
    transport.protocol.dataReceived(b"e")
    assert transport.protocol.seen == b"abcde"
    assert first._timer is None


async def test_idle_preamble_times_out():
    transport = connected(ThreeBytes(Factory.forProtocol(Remembers), 0.01))
    await eventually(lambda: not (not transport.disconnecting and not getattr(transport, "aborting", False)))


async def test_disconnect_cancels_timer():
    first = ThreeBytes(Factory.forProtocol(Remembers))
    connected(first)
    first.connectionLost()
    assert first._timer is None


def test_wrapped_factory_starts_and_stops():
    factory = Factory.forProtocol(Remembers)
    before = PreambleFactory(factory)
    before.doStart()
    assert factory.numPorts == 1
    before.doStop()
    assert factory.numPorts == 0
