"""Client connections to Envoy, which gate resets when access ends. If Envoy does not confirm a reset, gate kills Envoy."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import structlog

from foundation.backoff import backoff_delays
from foundation.tasks import spawn
from foundation.telemetry import metrics
from proxy.envoy.process.control_connection import ControlConnection
from proxy.envoy.resources.control_listener import RECORD_BYTES, records_for
from proxy.envoy.resources.internal_headers import Address

log = structlog.get_logger(__name__)

# Seconds for Envoy to confirm a request, and extra time for a response that arrived while the event loop was blocked.
CONFIRM_TIMEOUT, _GRACE = 1.0, 0.05
# Connections in one request: below what Envoy's overload manager may reset, and less than a millisecond of the event loop.
MAX_PEERS = 1000
_RECONNECT_INTERVAL = 0.05  # seconds
_FIRST_PAUSE, _MAX_PAUSE = 0.02, 0.2  # seconds


# enforcement-point: Authorization: Revocation of requests that Envoy forwards
class DownstreamConnections:
    """Client connections to Envoy, identified by the address and port of their peer.

    gate keeps one control connection open. Without it Envoy must not forward requests (`can_reset`), so that a reset never needs a new
    file descriptor on either side.
    """

    def __init__(self, path: Path, kill_envoy: Callable[[], None]):
        self._path = path
        self._kill_envoy = kill_envoy
        self._control: ControlConnection | None = None
        self._is_missing, self._is_open = asyncio.Event(), asyncio.Event()
        self._is_missing.set()
        self._lock = asyncio.Lock()
        self._envoy_exited = asyncio.Event()  # of the current Envoy process
        self._was_open = False  # to the current Envoy; if not, it has forwarded nothing

    def __repr__(self) -> str:
        return f"<DownstreamConnections {'open' if self.can_reset else 'not open'}>"

    @property
    def can_reset(self) -> bool:
        return self._control is not None

    async def keep_open(self) -> None:
        """Keep the control connection open, until cancelled."""
        while True:
            await self._is_missing.wait()
            try:
                await self._open()
            except OSError:  # Envoy does not listen yet, or gate has no file descriptor left
                await asyncio.sleep(_RECONNECT_INTERVAL)

    async def wait_open(self) -> None:
        """Wait until the control connection is open."""
        await self._is_open.wait()

    async def reset(self, peers: Iterable[Address]) -> int:
        """Reset the connections of these peers. Return how many were open, after Envoy has confirmed it or exited."""
        return sum([await self._reset(piece) for piece in _batches(peers)])

    async def shut_down(self, peers: Iterable[Address]) -> set[Address]:
        """Close the connections of these peers after their last response. Return the peers that have not received all data yet."""
        undelivered: set[Address] = set()
        for batch in _batches(peers):
            async with self._lock:
                response = await self._call("/finish", batch)
            unsent = response or b""
            undelivered.update(batch if response is None else (peer for peer in batch if records_for([peer]) in _split_records(unsent)))
        return undelivered

    def on_envoy_exit(self) -> None:
        """Record that the Envoy process has exited, with all its connections."""
        self._was_open = False
        self._envoy_exited.set()
        self._envoy_exited = asyncio.Event()
        self._close()

    async def _reset(self, peers: Sequence[Address]) -> int:
        exited = self._envoy_exited
        async with self._lock:
            if exited.is_set() or not self._was_open:
                return 0
            try:
                response = await self._call("/cut", peers)
            except OSError:  # an address that cannot be encoded
                response = None
            if response is None and not exited.is_set():
                log.error("envoy restarted: connection reset unconfirmed", connections=len(peers))
                metrics.envoy_unconfirmed_resets.inc()
                self._kill_envoy()
                await exited.wait()
            return len(response or b"") // RECORD_BYTES

    async def _call(self, path: str, peers: Sequence[Address]) -> bytes | None:
        """Return the response body, empty if Envoy exits, or None after the timeout."""
        call = spawn(self._call_with_retries(path, records_for(peers)), name="request to envoy's control listener")
        try:
            for seconds in (CONFIRM_TIMEOUT, _GRACE):
                await asyncio.wait({call}, timeout=seconds)
            return call.result() if call.done() else None
        finally:
            if not call.done():
                call.cancel()
                self._close()  # a late response would be taken for that of the next request

    async def _call_with_retries(self, path: str, body: bytes) -> bytes:
        end = self._envoy_exited
        for pause in backoff_delays(_FIRST_PAUSE, _MAX_PAUSE):
            try:
                if self._control is None:
                    await self._open()
                if self._control is not None:
                    return await self._control.post(path, body)
            except OSError as error:
                log.warning("retrying connection reset", reason=repr(error))
            if end.is_set():
                break
            await asyncio.sleep(pause)
        return b""

    async def _open(self) -> None:
        """Open the control connection. Raises OSError."""
        exited = self._envoy_exited
        control = await ControlConnection.open(self._path, self._on_lost)
        if exited.is_set() or self._control is not None:  # the Envoy process has exited, or a concurrent call has opened another connection
            control.close()
            return
        self._control, self._was_open = control, True
        self._is_missing.clear()
        self._is_open.set()

    def _close(self) -> None:
        if self._control is not None:
            control, self._control = self._control, None
            control.close()
            self._is_open.clear()
            self._is_missing.set()

    def _on_lost(self, control: ControlConnection) -> None:
        if control is self._control:
            self._close()


def _batches(peers: Iterable[Address]) -> Iterator[list[Address]]:
    listed = list(peers)
    return (listed[start : start + MAX_PEERS] for start in range(0, len(listed), MAX_PEERS))


def _split_records(text: bytes) -> set[bytes]:
    return {text[start : start + RECORD_BYTES] for start in range(0, len(text), RECORD_BYTES)}
