"""Listener limits: how long a client may take, and how much we hold or discard for it."""

import math
from dataclasses import dataclass
from datetime import timedelta
from typing import Self

from config.options import Options

URL_BYTES = 8 * 1024
HEADER_BYTES = 16 * 1024
HEADERS_BYTES = 32 * 1024
HEADER_COUNT = 100
# The request line besides its URL: method, version, spaces.
REQUEST_LINE_EXTRA_BYTES = 64

# A request body waits in these many bytes before the client's socket is no longer read.
BODY_BUFFER_BYTES = 64 * 1024
# The kernel takes this much ahead of what the client's window lets out (twice at most); without a bound it is four MiB a slow reader.
NOTSENT_LOWAT_BYTES = 64 * 1024
# Less of a body than this at once, with more to come, is a drop: its connection stands behind others (fair_selector.py).
MIN_BODY_CHUNK_BYTES = 4 * 1024
# So long after its last byte a client that does not read stands behind others.
SLOW_READER_SECONDS = 1.0
# What is left of a body after an early answer is read to keep the connection; more closes it.
DRAIN_BYTES = 64 * 1024
DRAIN_SECONDS = 5.0
# After our last byte: closing at once would make the kernel send RST, and the client might never read the answer.
LINGER_BYTES = 4 * 1024 * 1024
LINGER_SECONDS = 2.0
# A gap of timeout_read counts as ended when this much body has arrived: one byte a gap is no upload.
MIN_BODY_PROGRESS_BYTES = 256
# An application has this long to notice that its client went away.
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
