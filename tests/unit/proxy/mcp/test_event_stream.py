"""Events of a stream: complete, however the bytes arrive."""

import pytest

from proxy.mcp.event_stream import EventSplitter, EventTooLong, event_data, with_data

STREAM = b": ping\n\nid: 1\r\nevent: message\r\ndata: {}\r\n\r\ndata: a\ndata:b\n\ndata\rdata: c\r\rdata: incomplete"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_events_are_complete_and_nothing_is_lost(size: int) -> None:
    splitter = EventSplitter(1000)
    events = [event for start in range(0, len(STREAM), size) for event in splitter.feed(STREAM[start : start + size])]
    assert b"".join(events) + splitter.finish() == STREAM
    assert [data for event in events if (data := event_data(event)) is not None] == [b"{}", b"a\nb", b"\nc"]
    assert splitter.finish() == b"data: incomplete"


def test_events_are_bounded() -> None:
    for chunks in ([b"x" * 11], [b"x" * 6, b"x" * 6], [b"x" * 11 + b"\n\n"]):
        splitter = EventSplitter(10)
        for chunk in chunks[:-1]:
            assert splitter.feed(chunk) == []
        with pytest.raises(EventTooLong):
            splitter.feed(chunks[-1])
    assert EventSplitter(10).feed(b"x" * 8 + b"\n\n" + b"y" * 10) == [b"x" * 8 + b"\n\n"]


def test_replaced_data_keeps_the_other_fields() -> None:
    assert with_data(b"id: 7\r\nevent: message\r\ndata: a\r\ndata: b\r\n\r\n", b"{}") == b"id: 7\nevent: message\ndata: {}\n\n"
    assert with_data(b"data\ndata: a\nid: 7\n\n", b"{}") == b"id: 7\ndata: {}\n\n"
    assert with_data(b"", b"{}") == b"data: {}\n\n"
    assert event_data(b"id: 7\n\n") is None
