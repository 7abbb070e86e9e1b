"""Who is served in a turn of the event loop, where more are ready than one turn should take."""

import asyncio
import selectors
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from proxy.listener import limits
from proxy.listener.fair_selector import FEW, Stall, Turn, Turns, take_turns

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


@pytest.fixture
def turns() -> Iterator[Turns]:
    turns = Turns()
    yield turns
    turns.close()


@pytest.fixture
def pairs() -> Iterator[list[tuple[socket.socket, socket.socket]]]:
    with ExitStack() as stack:
        found = [socket.socketpair() for _ in range(40)]
        for ours, theirs in found:
            stack.enter_context(ours)
            stack.enter_context(theirs)
            theirs.send(b"x")
        yield found


def ready(turns: Turns) -> list[int]:
    return [key.fd for key, _ in turns.select(0)]


def test_of_those_behind_a_turn_takes_few_and_all_come_in_their_order(turns, pairs):
    behind = [ours.fileno() for ours, _ in pairs]
    for number, (ours, _) in zip(behind, pairs, strict=True):
        turns.put_behind(number)
        turns.register(ours, READ)
    seen: list[int] = []
    while len(seen) < len(behind):
        found = ready(turns)
        assert len(found) == FEW
        seen += found
        for number in found:
            pairs[behind.index(number)][0].recv(1)
    assert sorted(seen) == sorted(behind)
    assert ready(turns) == []


def test_one_that_is_always_ready_does_not_keep_others_behind_it_waiting(turns, pairs):
    for ours, _ in pairs:
        turns.register(ours, READ)
        turns.put_behind(ours.fileno())
    seen = {number for _ in range(len(pairs) // FEW + 1) for number in ready(turns)}  # nobody reads
    assert seen == {ours.fileno() for ours, _ in pairs}


def test_who_stands_first_is_served_in_each_turn_and_leaves_room_for_as_many_behind(turns, pairs):
    for position, (ours, _) in enumerate(pairs):
        turns.register(ours, READ)
        if position >= 10:
            turns.put_behind(ours.fileno())
    found = ready(turns)
    assert set(found[:10]) == {ours.fileno() for ours, _ in pairs[:10]}
    assert len(found) == 20


def test_one_that_stands_first_comes_before_all_that_were_ready_earlier(turns, pairs):
    for ours, _ in pairs:
        turns.register(ours, READ)
        turns.put_behind(ours.fileno())
    turns.put_first(pairs[-1][0].fileno())
    assert ready(turns)[0] == pairs[-1][0].fileno()


def test_what_is_registered_keeps_its_place_its_events_and_its_data(turns, pairs):
    ours = pairs[0][0]
    turns.put_behind(ours.fileno())
    turns.register(ours.fileno(), READ, "data")
    turns.put_first(ours.fileno())
    key = turns.modify(ours.fileno(), READ | WRITE, "more")
    assert turns.select(0) == [(key, READ | WRITE)]
    turns.put_behind(ours.fileno())
    assert turns.select(0) == [(key, READ | WRITE)]
    turns.modify(ours.fileno(), WRITE, "more")
    assert [events for _, events in turns.select(0)] == [WRITE]
    assert turns.get_map()[ours.fileno()].data == "more"
    assert turns.unregister(ours.fileno()).fd == ours.fileno()
    assert turns.select(0) == []
    with pytest.raises(KeyError):
        turns.get_key(ours.fileno())


def test_nothing_is_registered_twice(turns, pairs):
    turns.register(pairs[0][0], READ)
    with pytest.raises(KeyError):
        turns.register(pairs[0][0], READ)


def test_a_closed_descriptor_may_be_forgotten_and_used_again(turns):
    ours, theirs = socket.socketpair()
    number = ours.fileno()
    turns.register(number, READ)
    turns.put_behind(number)
    ours.close()
    turns.unregister(number)
    turns.put_first(number)
    assert not turns.stands_behind(number)
    theirs.close()


def test_the_end_of_a_connection_is_told_to_who_reads(turns, pairs):
    ours, theirs = pairs[0]
    ours.recv(1)
    turns.register(ours, READ)
    turns.put_behind(ours.fileno())
    assert turns.select(0) == []
    theirs.close()
    assert [events for _, events in turns.select(0)] == [READ]


def test_a_loop_works_with_turns_and_stands_new_connections_behind():
    loop = asyncio.new_event_loop()
    take_turns(loop)
    turns = loop._selector
    take_turns(loop)
    assert loop._selector is turns

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        turn = Turn(asyncio.get_running_loop(), writer.get_extra_info("socket").fileno())
        assert turns.stands_behind(writer.get_extra_info("socket").fileno())
        writer.write(await reader.readexactly(4))
        await writer.drain()
        turn.come_first()
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


def test_a_loop_without_a_selector_is_left_alone():
    class Loop:
        pass

    take_turns(Loop())
    Turn(Loop(), 7).come_first()


class LoopOfTurns:
    def __init__(self, turns: Turns):
        self._selector = turns
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


def test_drops_of_a_body_stand_behind_and_a_stream_of_it_comes_first(turns):
    turn = Turn(LoopOfTurns(turns), 7)
    turn.after(limits.DROP_BYTES)
    assert not turns.stands_behind(7)
    turn.after(limits.DROP_BYTES - 1)
    assert turns.stands_behind(7)


def test_a_client_that_does_not_read_soon_stands_behind_and_is_given_up_in_time(turns):
    loop, given_up = LoopOfTurns(turns), []
    turn = Turn(loop, 7)
    turn.come_first()
    stall = Stall(loop, turn)
    stall.begin(60.0, lambda: given_up.append(loop.now))
    loop.pass_time(limits.STALL_SECONDS / 2)
    assert not turns.stands_behind(7)
    loop.pass_time(limits.STALL_SECONDS / 2)
    assert turns.stands_behind(7)
    loop.pass_time(60.0 - limits.STALL_SECONDS - 1)
    assert given_up == []
    loop.pass_time(1.0)
    assert given_up == [60.0]


def test_a_client_that_reads_again_comes_first_and_is_not_given_up(turns):
    loop, given_up = LoopOfTurns(turns), []
    turn = Turn(loop, 7)
    stall = Stall(loop, turn)
    stall.begin(60.0, lambda: given_up.append(loop.now))
    loop.pass_time(2.0)
    stall.end()
    assert not turns.stands_behind(7)
    loop.pass_time(100.0)
    assert given_up == []
