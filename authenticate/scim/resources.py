"""SCIM resources (RFC 7643): what of a pushed user or group is kept, in which spelling, and how a kept one is shown."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from authenticate.scim.attribute_paths import ENTERPRISE, GROUP, USER, attributes_in, key_in, values_at
from authenticate.scim.scim_errors import ScimError, invalid
from databroker.records import Record

MAX_TEXT = 255
MAX_USER = 64 * 1024  # bytes, as JSON
MAX_MEMBERS = 50_000

_NAMES = {
    name.lower(): name
    for name in (
        *("userName", "externalId", "displayName", "nickName", "profileUrl", "title", "userType", "preferredLanguage", "locale"),
        *("timezone", "active", "name", "emails", "phoneNumbers", "ims", "photos", "addresses", "entitlements", "roles", "members"),
        ENTERPRISE,
    )
}
# Ours to say, or nobody's to keep.
_LEFT_OUT = frozenset({"id", "meta", "schemas", "groups", "password", "x509certificates"})


def user_of(document: Mapping[str, Any], *, was_active: bool = True) -> dict[str, Any]:
    """The user as it is kept; ScimError where it is none.  Without `active` nothing of it changes (RFC 7644 3.5.1)."""
    user = _named(document)
    _text(user, "userName", required=True)
    for name in ("externalId", "displayName"):
        _text(user, name)
    user["active"] = _boolean(user.get("active", was_active))
    if len(str(user)) > MAX_USER:
        raise ScimError(413, f"a user must be at most {MAX_USER} bytes")
    return user


def says_active(document: Mapping[str, Any]) -> bool:
    return any(name.lower() == "active" and value is not None for name, value in attributes_in(document))


def group_of(document: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """(the group without its members, the ids that are named as members); ScimError where it is none."""
    group = _named(document)
    _text(group, "displayName", required=True)
    _text(group, "externalId")
    return {name: group[name] for name in ("displayName", "externalId") if name in group}, _members(group.get("members"))


def email_of(user: Mapping[str, Any]) -> str:
    """The primary address, else the first, else a userName that is one."""
    emails = user.get("emails")
    listed = [entry for entry in emails if isinstance(entry, Mapping)] if isinstance(emails, list) else []
    listed.sort(key=lambda entry: not _boolean(entry.get("primary", False)))
    for candidate in (*values_at(listed, ("value",)), user["userName"]):
        if isinstance(candidate, str) and "@" in candidate and candidate.isprintable() and len(candidate) <= MAX_TEXT:
            return candidate
    return ""


def name_of(user: Mapping[str, Any]) -> str:
    parts = [*values_at(user, ("name", "givenName")), *values_at(user, ("name", "familyName"))]
    joined = " ".join(part for part in parts if isinstance(part, str))
    candidates = (*values_at(user, ("displayName",)), *values_at(user, ("name", "formatted")), joined, user["userName"])
    return next((name[:MAX_TEXT] for name in candidates if isinstance(name, str) and name and name.isprintable()), "")


def attributes_of(record: Record) -> dict[str, Any]:
    """A user's attributes as the provider has set them; whoever took `active` away sees none, and gate knows what it was."""
    resource = dict(record.data["resource"])
    if record.data.get("is_active_unsaid"):
        del resource["active"]
    return resource


def shown_user(record: Record, base: str) -> dict[str, Any]:
    shown = {"schemas": [USER], **attributes_of(record)}
    if ENTERPRISE in shown:
        shown["schemas"] = [USER, ENTERPRISE]
    groups = [{"value": id, "$ref": f"{base}Groups/{id}"} for id in sorted(record.data["groups"])]
    return {**shown, "id": record.id, "groups": groups, "meta": _meta(record, "User", base)}


def shown_group(record: Record, base: str) -> dict[str, Any]:
    members = [{"value": id, "type": "User", "$ref": f"{base}Users/{id}"} for id in record.data["members"]]
    return {"schemas": [GROUP], **record.data["resource"], "id": record.id, "members": members, "meta": _meta(record, "Group", base)}


def version_of(record: Record) -> str:
    return f'W/"{record.version}"'


def _meta(record: Record, kind: str, base: str) -> dict[str, str]:
    return {
        "resourceType": kind,
        "created": _time(record.data["created"]),
        "lastModified": _time(record.modified),
        "location": f"{base}{kind}s/{record.id}",
        "version": version_of(record),
    }


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _named(document: Mapping[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for name, value in attributes_in(document):
        lower = name.lower()
        if lower in _LEFT_OUT or value is None:
            continue
        name = next((known for folded, known in _NAMES.items() if folded == lower), name)
        kept[name] = value
    return kept


def _text(resource: Mapping[str, Any], name: str, *, required: bool = False) -> None:
    value = resource.get(name)
    if value is None and not required:
        return
    if not isinstance(value, str) or not value.strip() or not value.isprintable() or len(value) > MAX_TEXT:
        raise invalid(f"{name} must be text of 1 to {MAX_TEXT} printable characters")


def _boolean(value: Any) -> bool:
    """A boolean; Entra ID has written them as text."""
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise invalid("active and primary must be true or false")
    return value


def _members(listed: Any) -> tuple[str, ...]:
    elements: Iterable[Any] = listed if isinstance(listed, list) else ()
    if listed is not None and not isinstance(listed, list):
        raise invalid("members must be a list")
    ids: dict[str, None] = {}
    for element in elements:
        id = element.get(key_in(element, "value")) if isinstance(element, Mapping) else None
        if not isinstance(id, str) or not 0 < len(id) <= MAX_TEXT:
            raise invalid("each member must be an object with the id of a user as its value")
        ids[id] = None
    if len(ids) > MAX_MEMBERS:
        raise ScimError(413, f"a group must have at most {MAX_MEMBERS} members")
    return tuple(ids)
