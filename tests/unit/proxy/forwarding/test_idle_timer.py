"""Idle time is measured by a clock from the last data, and does not count while no side could send."""

import pytest

from proxy.forwarding import idle_timer as module
from proxy.forwarding.idle_timer import IdleTimer


class Loop:
    """Loop with a settable clock, whose one timer runs when it is due."""

    def __init__(self):
        self.now, self.due, self.is_hindered, self.cuts = 1000.0, None, False, 0

    def time(self):
        return self.now

    def call_later(self, seconds, callback, *arguments):
        self.due = self.now + seconds, callback, arguments
        return self

    def cancel(self):
        self.due = None

    def pass_by(self, seconds):
        end = self.now + seconds
        while self.due is not None and self.due[0] <= end:
            (self.now, callback, arguments), self.due = self.due, None
            callback(*arguments)
        self.now = end

    def cut(self):
        self.cuts += 1


@pytest.fixture
def loop(monkeypatch):
    made = Loop()
    monkeypatch.setattr(module.asyncio, "get_running_loop", lambda: made)
    return made


@pytest.fixture
def silence(loop):
    made = IdleTimer(60.0, lambda: loop.is_hindered, loop.cut)
    made.start()
    return made


def test_it_is_cut_when_nothing_was_said_for_so_long(loop, silence):
    loop.pass_by(59.9)
    assert loop.cuts == 0
    loop.pass_by(0.2)
    assert (loop.cuts, loop.due) == (1, None)


def test_it_begins_anew_with_each_word(loop, silence):
    for _ in range(10):
        loop.pass_by(50.0)
        silence.touch()
    loop.pass_by(59.9)
    assert loop.cuts == 0
    loop.pass_by(0.2)
    assert loop.cuts == 1


def test_time_in_which_nobody_could_speak_does_not_count(loop, silence):
    loop.is_hindered = True
    loop.pass_by(600.0)
    assert loop.cuts == 0
    loop.is_hindered = False
    loop.pass_by(60.1)
    assert loop.cuts == 1


def test_what_has_ended_is_cut_no_more(loop, silence):
    silence.stop()
    loop.pass_by(600.0)
    assert loop.cuts == 0


def test_without_a_limit_there_is_no_timer(loop):
    IdleTimer(None, lambda: False, loop.cut).start()
    assert loop.due is None
