"""Directory builder: combines users, groups and memberships from all pages into a snapshot with nested groups resolved."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from authenticate.directory.snapshot import DirectoryError, DirectorySnapshot
from databroker.records import DirectoryGroup, DirectoryUser

# Memory limits, far above what one gate can serve.
MAX_USERS, MAX_GROUPS, MAX_MEMBERSHIPS = 1_000_000, 200_000, 20_000_000
MAX_ID_LENGTH = 255
MAX_NAME_LENGTH = 255


def parse_id(entry: Any, key: str = "id") -> str:
    """Return the id of an entry, an integer or string that is valid in a record id. Raises DirectoryError for anything else."""
    value = entry.get(key) if isinstance(entry, Mapping) else None
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    if not text or len(text) > MAX_ID_LENGTH or not text.isprintable() or text != text.strip():
        raise DirectoryError(f"an entry of the directory has no valid {key}")
    return text


def parse_text(entry: Mapping[str, Any], *keys: str) -> str:
    """Return the first of these values that is a non-blank string, sanitized for display; "" if there is none."""
    for key in keys:
        value = entry.get(key)
        if isinstance(value, str) and value.strip():
            return "".join(character if character.isprintable() else " " for character in value).strip()[:MAX_NAME_LENGTH]
    return ""


def entries(document: Any, key: str = "") -> list[Any]:
    """Return the list in a page: the page itself, or its member `key`. Raises DirectoryError if there is none."""
    listed = document.get(key) if key and isinstance(document, Mapping) else document
    if not isinstance(listed, list):
        raise DirectoryError(f"a page of the directory lacks its list {key}".rstrip())
    return listed


class DirectoryBuilder:
    """Accumulator by the vendor's ids, which ignores duplicates of a user.

    Members that are not listed as users are included only with `allow_unlisted_members`.
    `includes_users_without_groups` is False if the vendor does not list users who are in no group.
    """

    def __init__(self, *, allow_unlisted_members: bool = False, includes_users_without_groups: bool = True) -> None:
        self._allow_unlisted_members = allow_unlisted_members
        self._includes_users_without_groups = includes_users_without_groups
        self._users: dict[str, tuple[str, str]] = {}
        self._groups: dict[str, tuple[str, str]] = {}
        self._members: defaultdict[str, list[str]] = defaultdict(list)  # of a group, users
        self._parents: defaultdict[str, set[str]] = defaultdict(set)  # of a group, groups that it is in
        self._memberships = 0
        self._ids: dict[str, str] = {}  # one string object per id, because every membership refers to it

    @property
    def user_ids(self) -> Iterable[str]:
        return self._users.keys()

    def add_user(self, id: str, *, email: str = "", name: str = "") -> None:
        known_email, known_name = self._users.get(id, ("", ""))
        self._users[id] = (email or known_email, name or known_name)
        if len(self._users) > MAX_USERS:
            raise DirectoryError(f"the directory has more than {MAX_USERS:,} users")

    def add_group(self, id: str, *, name: str = "", email: str = "") -> None:
        self._groups[id] = (name, email)
        if len(self._groups) > MAX_GROUPS:
            raise DirectoryError(f"the directory has more than {MAX_GROUPS:,} groups")

    def add_members(self, group: str, users: Iterable[str]) -> None:
        listed = self._members[group]
        before = len(listed)
        listed.extend(self._ids.setdefault(user, user) for user in users)
        self._memberships += len(listed) - before
        if self._memberships > MAX_MEMBERSHIPS:
            raise DirectoryError(f"the directory has more than {MAX_MEMBERSHIPS:,} memberships")

    def add_nested(self, child: str, parent: str) -> None:
        """Make the members of `child` members of `parent` as well."""
        self._parents[child].add(parent)

    def snapshot(self, provider: str, issuer: str) -> DirectorySnapshot:
        groups = {id: DirectoryGroup(id, name, email, issuer) for id, (name, email) in self._groups.items()}
        groups_by_user: defaultdict[str, list[str]] = defaultdict(list)
        for group in groups:
            above = [id for id in ancestors(group, self._parents) if id in groups]
            for user in self._members.get(group, ()):
                groups_by_user[user].extend(above)
        if self._allow_unlisted_members:
            for user in groups_by_user:
                self._users.setdefault(user, ("", ""))
        users = {}
        for id, (email, name) in self._users.items():
            user_id = f"{provider}/{id}"
            users[user_id] = DirectoryUser(user_id, email, name, tuple(sorted(set(groups_by_user.pop(id, ())))), issuer=issuer)
        return DirectorySnapshot(users, groups, "" if self._includes_users_without_groups else f"{provider}/", issuer)


def ancestors(start: str, parents: Mapping[str, set[str]]) -> set[str]:
    """Return the group `start` and all groups that contain it, also if they form a cycle."""
    found, pending = {start}, [start]
    while pending:
        for parent in parents.get(pending.pop(), ()):
            if parent not in found:
                found.add(parent)
                pending.append(parent)
    return found
