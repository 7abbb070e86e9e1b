"""A step is told of before it is taken, and where it fails; what can't be told of is not done."""

import pytest

from authenticate.access.telling import AuditLogAway, audited
from databroker.access.temporary import AccessError
from foundation.errors import BrokerError


class Log:
    """An audit log that takes so many lines."""

    def __init__(self, most: int = 9):
        self.lines: list[str] = []
        self._most = most

    async def tell(self, action: str) -> None:
        if len(self.lines) == self._most:
            raise AuditLogAway("full")
        self.lines.append(action)


async def test_a_step_is_told_of_before_it_is_taken() -> None:
    log, done = Log(), list[str]()
    async with audited(log.tell, "does", "failed"):
        done = list(log.lines)
    assert (done, log.lines) == (["does"], ["does"])


async def test_what_can_not_be_told_of_is_not_done() -> None:
    log, done = Log(most=0), False
    with pytest.raises(AuditLogAway):
        async with audited(log.tell, "does", "failed"):
            done = True
    assert not done


@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("error", [BrokerError, AccessError])
async def test_a_step_that_fails_is_told_of_where_that_can_be(error: type[Exception], most: int) -> None:
    """Whoever asked reads of what failed, not that the log was full by then."""
    log = Log(most)
    with pytest.raises(error, match="away"):
        async with audited(log.tell, "does", "failed"):
            raise error("away")
    assert log.lines == ["does", "failed"][:most]
