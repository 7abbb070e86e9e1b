"""Directory snapshot: the users and groups of one source at one time, and the time budget of a sync."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from databroker.records import DirectoryGroup, DirectoryUser
from foundation.errors import ProviderError


class DirectoryError(ProviderError):
    """The directory can't be read completely, so the existing records remain unchanged."""


@dataclass(frozen=True, slots=True)
class DirectorySnapshot:
    """Users and groups by record id; the id of a user is "<provider>/<subject>".

    If the directory omits users without groups, `partial_for` is the id prefix of its users, else "".
    `issuer` is the issuer that signs the users in. A file has none, and applies to any issuer.
    """

    users: Mapping[str, DirectoryUser]
    groups: Mapping[str, DirectoryGroup]
    partial_for: str = ""
    issuer: str = ""


@dataclass(frozen=True, slots=True)
class DirectoryMember:
    """One user with their groups, from a look-up."""

    user: DirectoryUser
    groups: tuple[DirectoryGroup, ...]


@dataclass(slots=True)
class TimeBudget:
    """Limits of one sync: a `deadline` by the clock `now`, and attempts per request. `requests` counts the requests made."""

    deadline: float
    attempts: int = 6
    requests: int = 0
    now: Callable[[], float] = field(default=time.monotonic, repr=False)

    @property
    def remaining(self) -> float:
        return self.deadline - self.now()
