"""Limits of the listener: client timeouts, and how much gate buffers or discards per connection."""

import math
from dataclasses import dataclass
from datetime import timedelta
from typing import Self

from config.options import Options

URL_BYTES = 8 * 1024
HEADER_BYTES = 16 * 1024
HEADERS_BYTES = 32 * 1024
HEADER_COUNT = 100
# Request line without its URL: method, version, spaces.
REQUEST_LINE_EXTRA_BYTES = 64

# Buffered bytes of a request body from which the client's socket is not read.
BODY_BUFFER_BYTES = 64 * 1024
# Unsent bytes that the kernel buffers per connection (at most twice as many). Without this bound a slow reader costs four MiB.
NOTSENT_LOWAT_BYTES = 64 * 1024
# A smaller chunk of an incomplete body makes its connection low priority (fair_selector.py).
MIN_BODY_CHUNK_BYTES = 4 * 1024
# A client that has not read for this long is low priority.
SLOW_READER_SECONDS = 1.0
# Up to this much of a body is drained after an early response, to keep the connection; more closes it.
DRAIN_BYTES = 64 * 1024
DRAIN_SECONDS = 5.0
# Lingering close: closing at once would make the kernel send RST, and the client might never read the response.
LINGER_BYTES = 4 * 1024 * 1024
LINGER_SECONDS = 2.0
# Body bytes that restart timeout_read; a client that sends less in that time is too slow.
MIN_BODY_PROGRESS_BYTES = 256
# After a client disconnects, the application is cancelled after this time.
APPLICATION_GRACE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class ListenerLimits:
    """Timeouts in seconds; infinity means no limit."""

    read_timeout: float = 30.0
    write_timeout: float = math.inf
    idle_timeout: float = 300.0

    @classmethod
    def from_options(cls, options: Options) -> Self:
        return cls(
            read_timeout=_seconds(options.timeout_read),
            write_timeout=_seconds(options.timeout_write),
            idle_timeout=_seconds(options.timeout_idle),
        )


def _seconds(duration: timedelta) -> float:
    return duration.total_seconds() or math.inf
