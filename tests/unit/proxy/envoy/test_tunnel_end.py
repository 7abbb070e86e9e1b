"""A tunnel behind Envoy ends as gate means it."""

import asyncio

import pytest

from proxy.envoy import tunnel_end
from proxy.envoy.resources.edge_headers import Address
from proxy.envoy.tunnel_end import EnvoyTunnelEnd
from tests.unit.proxy.forwarding.test_tunnel import Recorder

CLIENT = ("192.0.2.7", 5000)


class Ends(Recorder):
    def write_eof(self) -> None:
        self.ends.append("eof")


async def never(peers: list[Address]) -> int:
    raise AssertionError("nobody is cut")


async def test_what_is_said_and_how_it_ends_are_gates_own() -> None:
    under = Ends()
    end = EnvoyTunnelEnd(under, CLIENT, never)
    end.write(b"hello")
    end.pause_reading()
    end.resume_reading()
    end.write_eof()
    end.close()
    await end.settled()
    assert (under.written, under.ends) == (b"hello", ["eof", "close"])
    assert end.get_extra_info("socket") is None


async def test_an_envoy_that_says_nothing_keeps_no_tunnel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tunnel_end, "_PATIENCE", 0)

    async def silent(peers: list[Address]) -> int:
        return await asyncio.get_running_loop().create_future()

    under = Ends()
    end = EnvoyTunnelEnd(under, CLIENT, silent)
    end.abort()
    await end.settled()
    assert under.ends == ["abort"]
