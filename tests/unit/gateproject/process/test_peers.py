"""A process without peers does everything itself."""

from types import SimpleNamespace

from gateproject.process.peers import NoPeers


async def test_a_process_alone_starts_its_parts_and_is_ready() -> None:
    peers, calls = NoPeers(), []

    async def start_parts() -> None:
        calls.append("parts")

    await peers.start(None, start_parts)
    peers.on_ready(SimpleNamespace(announce_ready=lambda: calls.append("ready")))
    assert calls == ["parts", "ready"]
