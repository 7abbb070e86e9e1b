"""Leader election: run a task in exactly one process, the lease holder.  The task is cancelled before the lease can expire."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import structlog

from databroker.store.base import Lease, Leases
from foundation.backoff import backoff_delays
from foundation.errors import BrokerError
from foundation.tasks import spawn

log = structlog.get_logger(__name__)

T = TypeVar("T")

INITIAL_BACKOFF = 0.1
# Work is cancelled after this part of the lease, because clocks differ and stopping takes time.
LEASE_SAFETY_FACTOR = 0.9


async def run_elected(client: Leases, name: str, work: Callable[[], Coroutine[Any, Any, None]], *, ttl: float = 30.0) -> None:
    """Run `work()` while this process holds the lease `name`, and restart it if it ends or fails.  Never returns.

    Work is cancelled before another process can acquire the lease, even if the broker does not respond: at most `ttl` seconds after the
    last successful renewal was requested.
    """
    backoff = backoff_delays(INITIAL_BACKOFF)
    while True:
        requested_at = asyncio.get_running_loop().time()
        try:
            lease = await client.acquire(name, ttl)
            if lease is not None and await _hold(client, lease, work, requested_at, ttl):
                backoff = backoff_delays(INITIAL_BACKOFF)
        except BrokerError as error:
            log.warning("leader election unavailable", work=name, reason=str(error))
            await asyncio.sleep(next(backoff))
        except Exception:  # log and continue, because without this loop no process might do the work
            log.exception("leader election failed", work=name)
            await asyncio.sleep(next(backoff))
        else:
            await asyncio.sleep(ttl / 3 if lease is None else next(backoff))


class LeaseHeldElsewhere(BrokerError):
    """Another process holds the lease."""


async def run_exclusive(client: Leases, name: str, work: Callable[[], Coroutine[Any, Any, T]], *, ttl: float = 30.0) -> T:
    """Run `work()` once, exclusively.

    Raises LeaseHeldElsewhere if another process runs it, BrokerError if the lease was lost or `work` was cancelled.
    """
    requested_at = asyncio.get_running_loop().time()
    lease = await client.acquire(name, ttl)
    if lease is None:
        raise LeaseHeldElsewhere(f"another process does this: {name}")
    task, is_held = await _run_while_held(client, lease, work, requested_at, ttl)
    if task.cancelled() or not is_held:
        raise BrokerError(f"another process may do this now: {name}")
    return task.result()


async def _hold(client: Leases, lease: Lease, work: Callable[[], Coroutine[Any, Any, None]], requested_at: float, ttl: float) -> bool:
    """Run the work with the lease.  Return False if the work failed, so that the caller backs off."""
    log.info("leadership acquired", work=lease.name)
    task, is_held = await _run_while_held(client, lease, work, requested_at, ttl)
    if not is_held:
        log.warning("leadership lost", work=lease.name)
    return task.cancelled() or task.exception() is None


async def _run_while_held(
    client: Leases, lease: Lease, work: Callable[[], Coroutine[Any, Any, T]], requested_at: float, ttl: float
) -> tuple[asyncio.Task[T], bool]:
    """Return the finished task, and whether the lease was held until its end.  Releases the lease."""
    task = spawn(work(), name=lease.name)
    try:
        is_held = await _renew_while(task, client, lease, requested_at, ttl)
    finally:
        task.cancel()
        await asyncio.wait({task})
        with suppress(BrokerError):
            await client.release(lease)
    return task, is_held


async def _renew_while(task: asyncio.Task[Any], client: Leases, lease: Lease, requested_at: float, ttl: float) -> bool:
    """Renew the lease until the task has ended.  Return False if the lease is or may be lost."""
    now = asyncio.get_running_loop().time
    expires_at = requested_at + ttl * LEASE_SAFETY_FACTOR
    while not (await asyncio.wait({task}, timeout=min(ttl / 3, expires_at - now())))[0]:
        requested_at = now()
        try:
            async with asyncio.timeout_at(expires_at):
                if not await client.renew(lease, ttl):
                    return False
            expires_at = requested_at + ttl * LEASE_SAFETY_FACTOR
        except BrokerError as error:
            log.warning("lease renewal failed", work=lease.name, reason=str(error))
        except TimeoutError:
            return False
        if now() >= expires_at:
            return False
    return True
