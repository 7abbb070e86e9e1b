"""Idle time counts from the last data, except while no side can send."""

import pytest

from proxy.forwarding import idle_timer as module
from proxy.forwarding.idle_timer import IdleTimer


class Loop:
    """Event loop with a settable clock and a single timer."""

    def __init__(self):
        self.now, self.due, self.is_blocked, self.idle_calls = 1000.0, None, False, 0

    def time(self):
        return self.now

    def call_later(self, seconds, callback, *arguments):
        self.due = self.now + seconds, callback, arguments
        return self

    def cancel(self):
        self.due = None

    def advance(self, seconds):
        end = self.now + seconds
        while self.due is not None and self.due[0] <= end:
            (self.now, callback, arguments), self.due = self.due, None
            callback(*arguments)
        self.now = end

    def on_idle(self):
        self.idle_calls += 1


@pytest.fixture
def loop(monkeypatch):
    created = Loop()
    monkeypatch.setattr(module.asyncio, "get_running_loop", lambda: created)
    return created


@pytest.fixture
def timer(loop):
    created = IdleTimer(60.0, lambda: loop.is_blocked, loop.on_idle)
    created.start()
    return created


def test_calls_on_idle_after_timeout(loop, timer):
    loop.advance(59.9)
    assert loop.idle_calls == 0
    loop.advance(0.2)
    assert (loop.idle_calls, loop.due) == (1, None)


def test_activity_restarts_the_timeout(loop, timer):
    for _ in range(10):
        loop.advance(50.0)
        timer.touch()
    loop.advance(59.9)
    assert loop.idle_calls == 0
    loop.advance(0.2)
    assert loop.idle_calls == 1


def test_blocked_time_does_not_count(loop, timer):
    loop.is_blocked = True
    loop.advance(600.0)
    assert loop.idle_calls == 0
    loop.is_blocked = False
    loop.advance(60.1)
    assert loop.idle_calls == 1


def test_stopped_timer_does_not_fire(loop, timer):
    timer.stop()
    loop.advance(600.0)
    assert loop.idle_calls == 0


def test_without_a_limit_there_is_no_timer(loop):
    IdleTimer(None, lambda: False, loop.on_idle).start()
    assert loop.due is None
