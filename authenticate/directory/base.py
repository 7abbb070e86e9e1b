"""What one source of users and groups knows at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass

from databroker.records import DirectoryGroup, DirectoryUser


@dataclass(frozen=True, slots=True)
class DirectorySnapshot:
    """Everything by its record id; a user's is "<provider>/<subject>"."""

    users: Mapping[str, DirectoryUser]
    groups: Mapping[str, DirectoryGroup]
