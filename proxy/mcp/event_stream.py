"""Events of a server-sent event stream (HTML, 9.2), split from the bytes of a response."""

import re

_EVENT_END = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")
_LINE_END = re.compile(rb"\r\n|\n|\r")


class EventTooLong(Exception):
    """An event is longer than its reader accepts.  The rest of the stream is unusable."""


class EventSplitter:
    """Splitter of a stream into complete events, with their blank lines.  An event has at most `max_bytes`."""

    def __init__(self, max_bytes: int):
        self._max_bytes = max_bytes
        self._rest = bytearray()
        self._searched = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Return the events that are complete now.  Raises EventTooLong."""
        self._rest += data
        events, start = [], 0
        while (end := _EVENT_END.search(self._rest, max(start, self._searched))) is not None:
            events.append(bytes(self._rest[start : end.end()]))
            start = self._searched = end.end()
        del self._rest[:start]
        self._searched = max(0, len(self._rest) - 3)  # a blank line may be incomplete
        if len(self._rest) > self._max_bytes or any(len(event) > self._max_bytes for event in events):
            raise EventTooLong
        return events

    def finish(self) -> bytes:
        """Return the incomplete event at the end of the stream, which clients ignore."""
        return bytes(self._rest)


def event_data(event: bytes) -> bytes | None:
    """Return the data of an event, None if it has none."""
    found = [line for line in _LINE_END.split(event) if line == b"data" or line.startswith(b"data:")]
    return b"\n".join(line[5:].removeprefix(b" ") for line in found) if found else None


def with_data(event: bytes, data: bytes) -> bytes:
    """Return the event with other data, which is one line."""
    others = [line for line in _LINE_END.split(event) if line and line != b"data" and not line.startswith(b"data:")]
    return b"".join(line + b"\n" for line in [*others, b"data: " + data]) + b"\n"
