"""A tunnel behind Envoy ends as gate means it."""

from proxy.envoy.envoy_tunnel_transport import EnvoyTunnelTransport
from proxy.envoy.resources.internal_headers import Address
from tests.unit.proxy.forwarding.test_tunnel import Recorder

CLIENT = ("192.0.2.7", 5000)


class Ends(Recorder):
    def write_eof(self) -> None:
        self.ends.append("eof")


async def never(peers: list[Address]) -> int:
    raise AssertionError("nobody is cut")


async def test_tunnel_transport_delegates_to_gate() -> None:
    under = Ends()
    end = EnvoyTunnelTransport(under, CLIENT, never)
    end.write(b"hello")
    end.pause_reading()
    end.resume_reading()
    end.write_eof()
    end.close()
    await end.wait_reset()
    assert (under.written, under.ends) == (b"hello", ["eof", "close"])
    assert end.get_extra_info("socket") is None
