import asyncio
import math
from collections.abc import Awaitable, Callable

import pytest
from structlog.testing import capture_logs

from databroker.records import SESSION, USER, Record
from databroker.replica import CACHE_CLEARED
from databroker.store.base import RecordChange
from foundation.errors import BrokerError
from proxy.incoming_request import IncomingRequest
from proxy.planes.open_streams import OpenStreams
from tests.support.asgi import incoming_from

INCOMING = incoming_from("https://app.example.com/")
ENDED = RecordChange(2, SESSION, "s1", None)
CHANGED = RecordChange(3, USER, "oidc/ann", Record(USER, "oidc/ann", {}, 3, 0.0))


def opened(streams: OpenStreams, session_id: str, ended: list[str]) -> None:
    streams.open(INCOMING, session_id, streams.access_change_count).revoke = lambda: ended.append(session_id)


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.fixture
async def running():
    tasks = []

    def run(streams: OpenStreams, evaluate: Callable[[IncomingRequest], Awaitable[float]]) -> None:
        tasks.append(asyncio.ensure_future(streams.run(evaluate)))

    yield run
    for task in tasks:
        task.cancel()


async def test_the_end_of_a_session_ends_its_streams_at_once_and_no_others() -> None:
    streams, ended = OpenStreams(), []
    for session_id in ("s1", "s1", "s2", ""):
        opened(streams, session_id, ended)
    streams.on_change(ENDED)
    await asyncio.sleep(0)
    assert ended == ["s1", "s1"]


async def test_failure_to_end_one_stream_blocks_no_other_and_no_later_change(running) -> None:
    """The replica calls us: an error that reached it would end its following for good, and with it every later withdrawal."""
    streams, ended, problems = OpenStreams(), [], []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: problems.append(context["exception"]))

    def fail() -> None:
        raise AttributeError("its connection is gone")

    for _ in range(2):
        streams.open(INCOMING, "s1", streams.access_change_count).revoke = fail
    opened(streams, "s1", ended)
    opened(streams, "s2", ended)
    streams.on_change(ENDED)
    await settle()
    assert ended == ["s1"]
    running(streams, _answer(0.0))
    streams.on_change(CHANGED)
    await settle()
    assert "s2" in ended
    assert {type(problem) for problem in problems} == {AttributeError}


async def test_a_stream_that_closed_is_forgotten() -> None:
    streams, ended = OpenStreams(), []
    stream = streams.open(INCOMING, "s1", streams.access_change_count)
    stream.revoke = lambda: ended.append("s1")
    streams.close(stream)
    streams.on_change(ENDED)
    await asyncio.sleep(0)
    assert ended == []
    assert repr(streams) == "<OpenStreams 0 of 0 sessions>"


async def test_a_stream_that_closes_before_its_turn_is_left_alone() -> None:
    streams, ended = OpenStreams(), []
    stream = streams.open(INCOMING, "s1", streams.access_change_count)
    stream.revoke = lambda: ended.append("s1")
    streams.on_change(ENDED)
    streams.close(stream)
    await asyncio.sleep(0)
    assert ended == []


@pytest.mark.parametrize("change", [CHANGED, CACHE_CLEARED, RecordChange(4, SESSION, "s1", Record(SESSION, "s1", {}, 4, 0.0))])
async def test_other_changes_reevaluate_open_streams(change: RecordChange, running) -> None:
    streams, ended = OpenStreams(), []
    opened(streams, "s1", ended)
    running(streams, _answer(0.0))
    await settle()
    assert ended == []
    streams.on_change(change)
    await settle()
    assert ended == ["s1"]


async def test_changed_policy_reevaluates_everything(running) -> None:
    streams, ended = OpenStreams(), []
    opened(streams, "", ended)
    running(streams, _answer(0.0))
    streams.on_policy_change()
    await settle()
    assert ended == [""]


@pytest.mark.parametrize("happens", [lambda streams: streams.on_change(ENDED), OpenStreams.on_policy_change])
async def test_stream_opening_after_unseen_change_is_reevaluated(
    happens: Callable[[OpenStreams], None], running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proxy.planes.open_streams.RECHECK_INTERVAL", 0)
    streams, ended = OpenStreams(), []
    running(streams, _answer(0.0))
    seen_count = streams.access_change_count
    happens(streams)
    await settle()
    streams.open(INCOMING, "s1", seen_count).revoke = lambda: ended.append("s1")
    await settle()
    assert ended == ["s1"]


async def test_requests_are_answered_during_reevaluation_and_closed_streams_are_skipped(running) -> None:
    streams, ended, evaluated = OpenStreams(), [], []

    async def evaluate(incoming: IncomingRequest) -> float:
        evaluated.append(incoming)
        return 0.0

    opened_streams = [streams.open(INCOMING, "s1", streams.access_change_count) for _ in range(120)]
    for stream in opened_streams:
        stream.revoke = lambda: ended.append("s1")
    running(streams, evaluate)
    streams.on_policy_change()
    while not evaluated:
        await asyncio.sleep(0)
    assert len(evaluated) < 120
    for stream in opened_streams:
        streams.close(stream)
    count_before = len(evaluated)
    await settle()
    assert len(evaluated) == count_before
    assert len(ended) <= count_before


async def test_still_allowed_streams_continue(running) -> None:
    streams, ended = OpenStreams(), []
    opened(streams, "s1", ended)
    running(streams, _answer(math.inf))
    streams.on_policy_change()
    await settle()
    assert ended == []


async def test_unavailable_broker_defers_decisions_and_is_retried(running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.planes.open_streams.RECHECK_INTERVAL", 0)
    streams, ended, evaluated = OpenStreams(), [], []

    async def evaluate(incoming: IncomingRequest) -> float:
        evaluated.append(incoming)
        if len(evaluated) < 3:
            raise BrokerError("away")
        return 0.0

    opened(streams, "s1", ended)
    running(streams, evaluate)
    streams.on_policy_change()
    await settle()
    await settle()
    assert ended[:1] == ["s1"]


async def test_an_end_that_was_known_counts_while_the_broker_is_away(running, monkeypatch: pytest.MonkeyPatch) -> None:
    """The known end of a grant or session needs no broker.  An extension counts only if it was learned before."""
    monkeypatch.setattr("proxy.planes.open_streams.RECHECK_INTERVAL", 0)
    ended, now, known = list[str](), [100.0], {"first": 200.0}
    streams = OpenStreams(lambda: now[0])

    async def evaluate(incoming: IncomingRequest) -> float:
        if not known:
            raise BrokerError("away")
        return known["first"] if incoming is INCOMING else math.inf

    async def looked() -> None:
        streams.on_policy_change()
        for _ in range(5):
            await settle()

    streams.open(INCOMING, "s1", 0, expires_at=150.0).revoke = lambda: ended.append("s1")
    streams.open(incoming_from("https://app.example.com/"), "s2", 0).revoke = lambda: ended.append("s2")
    running(streams, evaluate)
    await looked()  # until 200 by now
    known.clear()
    now[0] = 199.0
    await looked()
    assert ended == []
    now[0] = 200.0
    with capture_logs() as logs:
        await looked()
    assert set(ended) == {"s1"}
    assert "store unavailable" in logs[0]["reason"]


async def test_stream_failing_evaluation_blocks_no_other(running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.planes.open_streams.RECHECK_INTERVAL", 0)
    streams, ended = OpenStreams(), []

    async def evaluate(incoming: IncomingRequest) -> float:
        if incoming is INCOMING:
            raise BrokerError("the provider of this one is away")
        return 0.0

    opened(streams, "s1", ended)
    streams.open(incoming_from("https://app.example.com/"), "s2", streams.access_change_count).revoke = lambda: ended.append("s2")
    running(streams, evaluate)
    streams.on_policy_change()
    await settle()
    await settle()
    assert set(ended) == {"s2"}


async def test_an_error_in_judging_one_stream_ends_it_and_the_judging_goes_on(running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise no access would be revoked any more, without a log line."""
    monkeypatch.setattr("proxy.planes.open_streams.RECHECK_INTERVAL", 0)
    streams, ended, may = OpenStreams(), [], {"s2"}
    other = incoming_from("https://app.example.com/")

    async def evaluate(incoming: IncomingRequest) -> float:
        if incoming is INCOMING:
            raise TypeError("authorize is of another release")
        return math.inf if may else 0.0

    opened(streams, "s1", ended)
    streams.open(other, "s2", streams.access_change_count).revoke = lambda: ended.append("s2")
    running(streams, evaluate)
    streams.on_policy_change()
    with capture_logs() as logs:
        await settle()
    assert set(ended) == {"s1"}
    assert logs[0]["event"] == "stream re-authorization failed"
    may.clear()
    streams.on_policy_change()
    await settle()
    assert "s2" in ended


async def test_only_time_dependent_streams_are_reevaluated_periodically(running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.planes.open_streams.RECHECK_INTERVAL", 0)
    monkeypatch.setattr("proxy.planes.open_streams.TIMED_RECHECK_INTERVAL", 0.001)
    streams, ended, evaluated = OpenStreams(), asyncio.Event(), []
    timed, closed, untimed = (incoming_from("https://app.example.com/") for _ in range(3))

    async def evaluate(incoming: IncomingRequest) -> float:
        evaluated.append(incoming)
        return 0.0

    streams.open(timed, "s1", streams.access_change_count, expires_by_time=True).revoke = ended.set
    streams.open(untimed, "s2", streams.access_change_count)
    streams.close(streams.open(closed, "s3", streams.access_change_count, expires_by_time=True))
    running(streams, evaluate)
    await ended.wait()
    assert {id(incoming) for incoming in evaluated} == {id(timed)}


def _answer(answer: float) -> Callable[[IncomingRequest], Awaitable[float]]:
    async def evaluate(incoming: IncomingRequest) -> float:
        return answer

    return evaluate


async def test_ended_access_does_not_wait_for_token_introspection(running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.planes.open_streams.RECHECK_INTERVAL", 0)
    monkeypatch.setattr("proxy.planes.open_streams.PROVIDER_TIMEOUT", 0.01)
    streams, ended, evaluated, may = OpenStreams(), asyncio.Event(), asyncio.Event(), {"person"}
    people = incoming_from("https://app.example.com/person")
    for number in range(3):
        streams.open(incoming_from(f"https://app.example.com/token{number}"), f"bearer/{number}", 0, needs_provider=True)

    async def evaluate(incoming: IncomingRequest) -> float:
        if incoming is not people:
            evaluated.set()
            await asyncio.Event().wait()
        return math.inf if may else 0.0

    streams.open(people, "s1", 0).revoke = ended.set
    running(streams, evaluate)
    streams.on_policy_change()
    async with asyncio.timeout(10):
        await evaluated.wait()
        may.clear()
        streams.on_policy_change()
        await ended.wait()


async def test_tunnels_are_counted_per_session_or_per_address():
    streams = OpenStreams()

    def opened(session_id, client, method="CONNECT"):
        return streams.open(incoming_from("https://db.example.com:22/", method=method, client=client), session_id, 0)

    for session_id, client in (("ann", "192.0.2.1"), ("ann", "192.0.2.2"), ("", "192.0.2.1"), ("", "192.0.2.3")):
        opened(session_id, client)
    opened("ann", "192.0.2.1", "GET")
    last = opened("", "192.0.2.1")
    assert (
        streams.count_tunnels("ann", "192.0.2.9"),
        streams.count_tunnels("", "192.0.2.1"),
        streams.count_tunnels("bob", "192.0.2.1"),
    ) == (2, 2, 0)
    streams.close(last)
    assert streams.count_tunnels("", "192.0.2.1") == 1
    for number in range(3):
        opened("", f"2001:db8::{number}")
    assert (streams.count_tunnels("", "2001:db8::ffff"), streams.count_tunnels("", "2001:db8:0:1::1")) == (3, 0)
