"""Directory file (`directory_file`): users and groups defined by the operator, as YAML, JSON or CSV."""

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from authenticate.directory.snapshot import DirectorySnapshot
from config.provider_config import ProviderConfig
from databroker.records import DirectoryGroup, DirectoryUser
from foundation.errors import ConfigError, Problem

MAX_SIZE = 64 * 1024 * 1024
_USER_KEYS = {"id", "email", "name", "groups"}
_GROUP_KEYS = {"id", "name", "email"}
_CSV_COLUMNS = ("kind", "id", "email", "name", "groups")


def read(path: Path, provider: ProviderConfig) -> DirectorySnapshot:
    """Return the snapshot in the file. Raises ConfigError with every problem in it."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError([Problem("directory_file", f"{path.name} can't be read: {error.strerror}")]) from error
    return parse(content, path.suffix.lower(), provider)


def parse(content: bytes, suffix: str, provider: ProviderConfig) -> DirectorySnapshot:
    """Return the snapshot in a file's content. Raises ConfigError.

    JSON is parsed as YAML. `.csv` has the columns kind (user or group), id, email, name, groups (separated by `;`).
    """
    if len(content) > MAX_SIZE:
        raise ConfigError([Problem("", f"the directory is larger than {MAX_SIZE} bytes")])
    try:
        text = content.decode("utf-8-sig")
        document = _from_csv(text) if suffix == ".csv" else yaml.load(text, _Loader)  # noqa: S506 - a safe loader
    except (UnicodeDecodeError, yaml.YAMLError, csv.Error, ValueError) as error:
        raise ConfigError([Problem("", f"the directory is not {suffix.removeprefix('.') or 'YAML'}: {error}")]) from error
    return _DirectoryFileReader(provider).snapshot(document)


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """PyYAML's safe loader, in C if available, which is six times faster (PyYAML 6.0)."""


class _DirectoryFileReader:
    def __init__(self, provider: ProviderConfig):
        self._provider = provider
        # The file of an entry in `identity_providers` is bound to that provider. The file of a single provider applies to any issuer.
        self._issuer = provider.issuer if provider.is_entry else ""
        self._problems: list[Problem] = []

    def snapshot(self, document: Any) -> DirectorySnapshot:
        users: dict[str, DirectoryUser] = {}
        groups: dict[str, DirectoryGroup] = {}
        if not isinstance(document, Mapping) or not set(document) <= {"users", "groups"}:
            raise ConfigError([Problem("", "a directory has the keys users and groups, and no others")])
        for key, entry in self._entries(document, "groups", _GROUP_KEYS):
            group_id, name, email = (self._text(key, entry, part) for part in ("id", "name", "email"))
            self._add(groups, key, DirectoryGroup(group_id, name, email, issuer=self._issuer))
        for key, entry in self._entries(document, "users", _USER_KEYS):
            user_id, email, name = self._user_id(key, entry), self._text(key, entry, "email"), self._text(key, entry, "name")
            ids = tuple(sorted(set(self._group_ids(key, entry))))
            self._add(users, key, DirectoryUser(user_id, email, name, ids, issuer=self._issuer))
        if self._problems:
            raise ConfigError(self._problems)
        for group_id in sorted({group_id for user in users.values() for group_id in user.group_ids} - set(groups)):
            groups[group_id] = DirectoryGroup(group_id, issuer=self._issuer)
        return DirectorySnapshot(users, groups, issuer=self._issuer)

    def _user_id(self, key: str, entry: Mapping[str, Any]) -> str:
        """Return the id of a user, which may be written without the provider's prefix."""
        written, prefix = self._text(key, entry, "id"), f"{self._provider.id}/"
        if self._provider.is_entry and "/" in written and (not written.startswith(prefix) or written == prefix):
            self._report(
                f"{key}.id", f"{written!r} is not a user of {self._provider.id}. Write the subject only, or prefix it with {prefix}"
            )
        return written if "/" in written else prefix + written

    def _entries(self, document: Mapping[str, Any], kind: str, keys: set[str]) -> list[tuple[str, Mapping[str, Any]]]:
        listed = document.get(kind) or []
        if not isinstance(listed, list):
            self._report(kind, "must be a list")
            return []
        entries = []
        for index, entry in enumerate(listed):
            key = f"{kind}[{index}]"
            if not isinstance(entry, Mapping) or not set(entry) <= keys:
                self._report(key, f"unknown key. Allowed: {', '.join(sorted(keys))}")
            elif entry.get("id") in (None, ""):
                self._report(f"{key}.id", "is missing")
            else:
                entries.append((key, entry))
        return entries

    def _text(self, key: str, entry: Mapping[str, Any], name: str) -> str:
        return self._one_text(f"{key}.{name}", entry.get(name))

    def _one_text(self, key: str, value: Any) -> str:
        # An unquoted integer is used as written; true, 1.0 or a date would not be reproduced exactly.
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if value is None:
            return ""
        if not isinstance(value, str) or not value.isprintable():
            self._report(key, "must be text on one line. Put it in quotes")
            return key  # a unique value, so that one mistake is reported once
        return value.strip()

    def _group_ids(self, key: str, entry: Mapping[str, Any]) -> list[str]:
        listed = entry.get("groups") or []
        if not isinstance(listed, list):
            self._report(f"{key}.groups", "must be a list of group ids")
            return []
        ids = [self._one_text(f"{key}.groups[{index}]", value) for index, value in enumerate(listed)]
        return [group_id for group_id in ids if group_id]

    def _add(self, known: dict[str, Any], key: str, value: Any) -> None:
        if value.id in known:
            self._report(f"{key}.id", f"duplicate id {value.id!r}")
        known[value.id] = value

    def _report(self, key: str, message: str) -> None:
        self._problems.append(Problem(key, message))


def _from_csv(text: str) -> dict[str, list[dict[str, Any]]]:
    rows = csv.DictReader(io.StringIO(text), strict=True)
    unknown = set(rows.fieldnames or ()) - set(_CSV_COLUMNS)
    if unknown or "id" not in (rows.fieldnames or ()):
        raise ValueError(f"the columns must be {', '.join(_CSV_COLUMNS)}; only id is required")
    document: dict[str, list[dict[str, Any]]] = {"users": [], "groups": []}
    for row in rows:
        kind = row.pop("kind", "") or "user"
        groups = [group.strip() for group in (row.pop("groups", "") or "").split(";")]
        if kind not in ("user", "group") or None in row:
            raise ValueError(f"line {rows.line_num}: kind must be user or group, and a row can't have more fields than columns")
        document[f"{kind}s"].append({**row, "groups": groups} if kind == "user" else dict(row))
    return document
