"""Telling of what is done: the audit log hears of a step before it is taken, and again where it then fails."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from foundation.errors import GateError

# Writes one action into the audit log; whatever it raises keeps the step from being taken.
Tell = Callable[[str], Awaitable[None]]


class AuditLogAway(GateError):
    """The audit log can't be written: what can't be told of must not be done."""

    status = 503


@asynccontextmanager
async def audited(tell: Tell, does: str, failed: str) -> AsyncGenerator[None]:
    """Step that is taken once the audit log knows that somebody `does` it; that it `failed` is told where it ends in an error of ours."""
    await tell(does)
    try:
        yield
    except GateError:
        await tell_failure(tell, failed)
        raise


async def tell_failure(tell: Tell, failed: str) -> None:
    with suppress(AuditLogAway):  # of which its own line in the log tells
        await tell(failed)
