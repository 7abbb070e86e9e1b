"""Directory builder: users, groups and memberships, gathered page by page, become one snapshot with nested groups resolved."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from authenticate.directory.snapshot import DirectoryError, DirectorySnapshot
from databroker.records import DirectoryGroup, DirectoryUser

# What this process is willing to hold; far beyond what one gate can serve.
MAX_USERS, MAX_GROUPS, MAX_MEMBERSHIPS = 1_000_000, 200_000, 20_000_000
LONGEST_ID = 255
LONGEST_NAME = 255


def id_of(entry: Any, key: str = "id") -> str:
    """The id of an entry, a number or text that can stand in a record's id; DirectoryError for anything else."""
    value = entry.get(key) if isinstance(entry, Mapping) else None
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    if not text or len(text) > LONGEST_ID or not text.isprintable() or text != text.strip():
        raise DirectoryError(f"an entry of the directory has no valid {key}")
    return text


def text_of(entry: Mapping[str, Any], *keys: str) -> str:
    """The first of these values that is text and not blank, cleaned for display; "" where none is."""
    for key in keys:
        value = entry.get(key)
        if isinstance(value, str) and value.strip():
            return "".join(character if character.isprintable() else " " for character in value).strip()[:LONGEST_NAME]
    return ""


def entries(document: Any, key: str = "") -> list[Any]:
    """The list in a page, itself or under `key`; DirectoryError where there is none."""
    listed = document.get(key) if key and isinstance(document, Mapping) else document
    if not isinstance(listed, list):
        raise DirectoryError(f"a page of the directory lacks its list {key}".rstrip())
    return listed


class DirectoryBuilder:
    """Accumulator by the vendor's ids.  A user told twice counts once; a member that is not listed counts by `may_be_unlisted` only.

    `lists_everybody`: also who is in no group.
    """

    def __init__(self, *, may_be_unlisted: bool = False, lists_everybody: bool = True) -> None:
        self._may_be_unlisted = may_be_unlisted
        self._lists_everybody = lists_everybody
        self._users: dict[str, tuple[str, str]] = {}
        self._groups: dict[str, tuple[str, str]] = {}
        self._members: defaultdict[str, list[str]] = defaultdict(list)  # of a group, users
        self._parents: defaultdict[str, set[str]] = defaultdict(set)  # of a group, groups that it is in
        self._memberships = 0
        self._ids: dict[str, str] = {}  # one text for each id: it is named by every membership

    @property
    def user_ids(self) -> Iterable[str]:
        return self._users.keys()

    def user(self, id: str, *, email: str = "", name: str = "") -> None:
        known_email, known_name = self._users.get(id, ("", ""))
        self._users[id] = (email or known_email, name or known_name)
        if len(self._users) > MAX_USERS:
            raise DirectoryError(f"the directory has more than {MAX_USERS:,} users")

    def group(self, id: str, *, name: str = "", email: str = "") -> None:
        self._groups[id] = (name, email)
        if len(self._groups) > MAX_GROUPS:
            raise DirectoryError(f"the directory has more than {MAX_GROUPS:,} groups")

    def members(self, group: str, users: Iterable[str]) -> None:
        listed = self._members[group]
        before = len(listed)
        listed.extend(self._ids.setdefault(user, user) for user in users)
        self._memberships += len(listed) - before
        if self._memberships > MAX_MEMBERSHIPS:
            raise DirectoryError(f"the directory has more than {MAX_MEMBERSHIPS:,} memberships")

    def nested(self, child: str, parent: str) -> None:
        """Make members of `child` members of `parent`, too."""
        self._parents[child].add(parent)

    def snapshot(self, provider: str, issuer: str) -> DirectorySnapshot:
        groups = {id: DirectoryGroup(id, name, email, issuer) for id, (name, email) in self._groups.items()}
        belongs: defaultdict[str, list[str]] = defaultdict(list)
        for group in groups:
            above = [id for id in reached(group, self._parents) if id in groups]
            for user in self._members.get(group, ()):
                belongs[user].extend(above)
        if self._may_be_unlisted:
            for user in belongs:
                self._users.setdefault(user, ("", ""))
        users = {}
        for id, (email, name) in self._users.items():
            user_id = f"{provider}/{id}"
            users[user_id] = DirectoryUser(user_id, email, name, tuple(sorted(set(belongs.pop(id, ())))), issuer=issuer)
        return DirectorySnapshot(users, groups, "" if self._lists_everybody else f"{provider}/", issuer)


def reached(start: str, parents: Mapping[str, set[str]]) -> set[str]:
    """The group `start` and all above it; circles end."""
    found, pending = {start}, [start]
    while pending:
        for parent in parents.get(pending.pop(), ()):
            if parent not in found:
                found.add(parent)
                pending.append(parent)
    return found
