"""Envoy's lines are read in pieces, and each finds its reader."""

import asyncio
import os

import structlog

from proxy.envoy.access_log_reader import AccessLogReader
from tests.support.eventually import eventually


async def test_lines_are_read_in_pieces_and_odd_ones_do_no_harm() -> None:
    reported: list[str] = []

    def fails(line: str) -> None:
        raise ValueError(line)

    log = AccessLogReader({"judged": reported.append, "uploaded": fails})
    assert log.path == f"/proc/self/fd/{log.fd}"
    task = asyncio.ensure_future(log.run())
    try:
        with structlog.testing.capture_logs() as payload:
            for piece in (b"nonsense\nuploaded 1\njudged 1 2", b" 3\njudged 4\n"):
                os.write(log.fd, piece)
                await asyncio.sleep(0.01)
            await eventually(lambda: len(reported) >= 2)
        assert reported == ["1 2 3", "4"]
        assert [entry["event"] for entry in payload] == [
            "unparsable envoy access log line",
            "envoy access log handler failed",
        ]
    finally:
        task.cancel()
        log.close()
