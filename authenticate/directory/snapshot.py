"""Directory snapshot: the users and groups of one source at one moment, and the budget of reading them."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from databroker.records import DirectoryGroup, DirectoryUser
from foundation.errors import ProviderError


class DirectoryError(ProviderError):
    """A directory that can't be read as a whole: what is known of it stays as it is."""


@dataclass(frozen=True, slots=True)
class DirectorySnapshot:
    """Users and groups by record id; a user's is "<provider>/<subject>".

    `unlisted` is how the ids of those begin who may be left out because they are in no group, "" where everybody is listed.
    `issuer` signs them in; a file is the operator's own word, which names none and counts whoever does.
    """

    users: Mapping[str, DirectoryUser]
    groups: Mapping[str, DirectoryGroup]
    unlisted: str = ""
    issuer: str = ""


@dataclass(frozen=True, slots=True)
class DirectoryPerson:
    """One user and their groups, from a look-up of them alone."""

    user: DirectoryUser
    groups: tuple[DirectoryGroup, ...]


@dataclass(slots=True)
class TimeBudget:
    """Time and tries of one reading: `ends` by the clock `now`, tries of each request, and a count of requests made."""

    ends: float
    attempts: int = 6
    requests: int = 0
    now: Callable[[], float] = field(default=time.monotonic, repr=False)

    @property
    def left(self) -> float:
        return self.ends - self.now()
