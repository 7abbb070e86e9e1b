"""Priorities of ready connections in a loop turn."""

import asyncio
import selectors
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from proxy.listener import listener_limits
from proxy.listener.fair_selector import LOW_PRIORITY_PER_TURN, FairSelector, PollPriority, WriteStallTimer, install_fair_selector

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


@pytest.fixture
def selector() -> Iterator[FairSelector]:
    selector = FairSelector()
    yield selector
    selector.close()


@pytest.fixture
def pairs() -> Iterator[list[tuple[socket.socket, socket.socket]]]:
    with ExitStack() as stack:
        found = [socket.socketpair() for _ in range(40)]
        for gate_side, peer_side in found:
            stack.enter_context(gate_side)
            stack.enter_context(peer_side)
            peer_side.send(b"x")
        yield found


def ready(selector: FairSelector) -> list[int]:
    return [key.fd for key, _ in selector.select(0)]


@pytest.mark.parametrize("kind", [selectors.DefaultSelector, FairSelector])
def test_finds_key_by_descriptor_and_file(kind, pairs):
    """asyncio asks by either, through `get_key` before Python 3.13 and through `get_map` since."""
    (one, two), (stranger, _) = pairs[:2]
    with kind() as selector:
        selector.register(one, READ, "first")
        selector.register(two.fileno(), WRITE, "second")
        registered = selector.get_map()
        for fileobj, data in ((one, "first"), (one.fileno(), "first"), (two, "second"), (two.fileno(), "second")):
            assert selector.get_key(fileobj).data == data
            assert registered.get(fileobj).data == registered[fileobj].data == data
            assert fileobj in registered
        assert stranger not in registered
        assert registered.get(stranger) is None
        with pytest.raises(KeyError):
            selector.get_key(stranger)
        with pytest.raises(KeyError):
            selector.register(one.fileno(), WRITE)
        assert sorted(registered) == sorted((one.fileno(), two.fileno()))
        assert len(registered) == 2
        selector.modify(one, READ | WRITE, "changed")
        assert registered[one.fileno()].events == READ | WRITE
        assert registered[one].data == "changed"
        selector.unregister(one.fileno())
        assert registered.get(one) is None
        assert list(registered) == [two.fileno()]


def test_turn_serves_few_low_priority_descriptors_in_order(selector, pairs):
    behind = [gate_side.fileno() for gate_side, _ in pairs]
    for number, (gate_side, _) in zip(behind, pairs, strict=True):
        selector.demote(number)
        selector.register(gate_side, READ)
    seen: list[int] = []
    while len(seen) < len(behind):
        found = ready(selector)
        assert len(found) == LOW_PRIORITY_PER_TURN
        seen += found
        for number in found:
            pairs[behind.index(number)][0].recv(1)
    assert sorted(seen) == sorted(behind)
    assert ready(selector) == []


def test_ready_descriptor_does_not_starve_others(selector, pairs):
    for gate_side, _ in pairs:
        selector.register(gate_side, READ)
        selector.demote(gate_side.fileno())
    seen = {number for _ in range(len(pairs) // LOW_PRIORITY_PER_TURN + 1) for number in ready(selector)}  # no reader
    assert seen == {gate_side.fileno() for gate_side, _ in pairs}


def test_high_priority_leaves_room_for_low_priority(selector, pairs):
    for position, (gate_side, _) in enumerate(pairs):
        selector.register(gate_side, READ)
        if position >= 10:
            selector.demote(gate_side.fileno())
    found = ready(selector)
    assert set(found[:10]) == {gate_side.fileno() for gate_side, _ in pairs[:10]}
    assert len(found) == 20


def test_high_priority_precedes_earlier_ready_descriptors(selector, pairs):
    for gate_side, _ in pairs:
        selector.register(gate_side, READ)
        selector.demote(gate_side.fileno())
    selector.promote(pairs[-1][0].fileno())
    assert ready(selector)[0] == pairs[-1][0].fileno()


def test_modify_and_promote_preserve_registration(selector, pairs):
    gate_side = pairs[0][0]
    selector.demote(gate_side.fileno())
    selector.register(gate_side.fileno(), READ, "data")
    selector.promote(gate_side.fileno())
    key = selector.modify(gate_side.fileno(), READ | WRITE, "more")
    assert selector.select(0) == [(key, READ | WRITE)]
    selector.demote(gate_side.fileno())
    assert selector.select(0) == [(key, READ | WRITE)]
    selector.modify(gate_side.fileno(), WRITE, "more")
    assert [events for _, events in selector.select(0)] == [WRITE]
    assert selector.get_map()[gate_side.fileno()].data == "more"
    assert selector.unregister(gate_side.fileno()).fd == gate_side.fileno()
    assert selector.select(0) == []
    with pytest.raises(KeyError):
        selector.get_key(gate_side.fileno())


def test_registers_each_descriptor_once(selector, pairs):
    selector.register(pairs[0][0], READ)
    with pytest.raises(KeyError):
        selector.register(pairs[0][0], READ)


def test_a_closed_descriptor_may_be_forgotten_and_used_again(selector):
    gate_side, peer_side = socket.socketpair()
    number = gate_side.fileno()
    selector.register(number, READ)
    selector.demote(number)
    gate_side.close()
    selector.unregister(number)
    selector.promote(number)
    assert not selector.is_demoted(number)
    peer_side.close()


def test_connection_end_is_reported_to_reader(selector, pairs):
    gate_side, peer_side = pairs[0]
    gate_side.recv(1)
    selector.register(gate_side, READ)
    selector.demote(gate_side.fileno())
    assert selector.select(0) == []
    peer_side.close()
    assert [events for _, events in selector.select(0)] == [READ]


def test_loop_uses_priorities_and_demotes_new_connections():
    loop = asyncio.new_event_loop()
    install_fair_selector(loop)
    selector = loop._selector
    install_fair_selector(loop)
    assert loop._selector is selector

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        priority = PollPriority(asyncio.get_running_loop(), writer.get_extra_info("socket").fileno())
        assert selector.is_demoted(writer.get_extra_info("socket").fileno())
        writer.write(await reader.readexactly(4))
        await writer.drain()
        priority.promote()
        writer.close()

    async def talk() -> list[bytes]:
        async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]

            async def ask() -> bytes:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"ping")
                answer = await reader.read()
                writer.close()
                return answer

            assert await asyncio.to_thread(lambda: "threads wake it") == "threads wake it"
            return await asyncio.gather(*(ask() for _ in range(50)))

    try:
        assert loop.run_until_complete(talk()) == [b"ping"] * 50
    finally:
        loop.close()


def test_loop_without_selector_is_unchanged():
    class Loop:
        pass

    install_fair_selector(Loop())
    PollPriority(Loop(), 7).promote()


class LoopOfSelector:
    def __init__(self, selector: FairSelector):
        self._selector = selector
        self.later: list[tuple[float, object]] = []
        self.now = 0.0

    def time(self) -> float:
        return self.now

    def call_at(self, when, callback):
        loop, due = self, (when, callback)
        self.later.append(due)

        class Handle:
            def when(self):
                return when

            def cancel(self):
                if due in loop.later:
                    loop.later.remove(due)

        return Handle()

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for due in [each for each in self.later if each[0] <= self.now]:
            self.later.remove(due)
            due[1]()


def test_small_body_chunks_lower_priority_and_large_ones_raise_it(selector):
    priority = PollPriority(LoopOfSelector(selector), 7)
    priority.on_body_bytes(listener_limits.MIN_BODY_CHUNK_BYTES)
    assert not selector.is_demoted(7)
    priority.on_body_bytes(listener_limits.MIN_BODY_CHUNK_BYTES - 1)
    assert selector.is_demoted(7)


def test_stall_timer_gets_low_priority_then_times_out(selector):
    loop, timed_out = LoopOfSelector(selector), []
    priority = PollPriority(loop, 7)
    priority.promote()
    stall_timer = WriteStallTimer(loop, priority)
    stall_timer.start(60.0, lambda: timed_out.append(loop.now))
    loop.pass_time(listener_limits.SLOW_READER_SECONDS / 2)
    assert not selector.is_demoted(7)
    loop.pass_time(listener_limits.SLOW_READER_SECONDS / 2)
    assert selector.is_demoted(7)
    loop.pass_time(60.0 - listener_limits.SLOW_READER_SECONDS - 1)
    assert timed_out == []
    loop.pass_time(1.0)
    assert timed_out == [60.0]


def test_client_that_reads_again_gets_high_priority(selector):
    loop, timed_out = LoopOfSelector(selector), []
    priority = PollPriority(loop, 7)
    stall_timer = WriteStallTimer(loop, priority)
    stall_timer.start(60.0, lambda: timed_out.append(loop.now))
    loop.pass_time(2.0)
    stall_timer.stop()
    assert not selector.is_demoted(7)
    loop.pass_time(100.0)
    assert timed_out == []
