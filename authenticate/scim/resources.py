"""SCIM resources (RFC 7643): parsing pushed users and groups into their stored form, and rendering them."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from authenticate.scim.attribute_paths import ENTERPRISE, GROUP, USER, find_key, get_values, iter_attributes
from authenticate.scim.scim_errors import ScimError, invalid
from databroker.records import Record

MAX_TEXT_LENGTH = 255
MAX_USER_BYTES = 64 * 1024  # bytes, as JSON
MAX_MEMBERS = 50_000

_NAMES = {
    name.lower(): name
    for name in (
        *("userName", "externalId", "displayName", "nickName", "profileUrl", "title", "userType", "preferredLanguage", "locale"),
        *("timezone", "active", "name", "emails", "phoneNumbers", "ims", "photos", "addresses", "entitlements", "roles", "members"),
        ENTERPRISE,
    )
}
# Assigned by the server, or not to be stored.
_IGNORED = frozenset({"id", "meta", "schemas", "groups", "password", "x509certificates"})


def parse_user(document: Mapping[str, Any], *, was_active: bool = True) -> dict[str, Any]:
    """Return the user in its stored form.  Without `active` the state stays `was_active` (RFC 7644 3.5.1).

    Raises ScimError if the document is no valid user.
    """
    user = _normalize_names(document)
    _check_text(user, "userName", required=True)
    for name in ("externalId", "displayName"):
        _check_text(user, name)
    user["active"] = _boolean(user.get("active", was_active))
    if len(str(user)) > MAX_USER_BYTES:
        raise ScimError(413, f"a user must be at most {MAX_USER_BYTES} bytes")
    return user


def has_active(document: Mapping[str, Any]) -> bool:
    return any(name.lower() == "active" and value is not None for name, value in iter_attributes(document))


def parse_group(document: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the group without its members, and the member ids.  Raises ScimError if the document is no valid group."""
    group = _normalize_names(document)
    _check_text(group, "displayName", required=True)
    _check_text(group, "externalId")
    return {name: group[name] for name in ("displayName", "externalId") if name in group}, _members(group.get("members"))


def get_email(user: Mapping[str, Any]) -> str:
    """Return the primary address, else the first, else the userName if it is an address, else ""."""
    emails = user.get("emails")
    listed = [entry for entry in emails if isinstance(entry, Mapping)] if isinstance(emails, list) else []
    listed.sort(key=lambda entry: not _boolean(entry.get("primary", False)))
    for candidate in (*get_values(listed, ("value",)), user["userName"]):
        if isinstance(candidate, str) and "@" in candidate and candidate.isprintable() and len(candidate) <= MAX_TEXT_LENGTH:
            return candidate
    return ""


def get_display_name(user: Mapping[str, Any]) -> str:
    parts = [*get_values(user, ("name", "givenName")), *get_values(user, ("name", "familyName"))]
    joined = " ".join(part for part in parts if isinstance(part, str))
    candidates = (*get_values(user, ("displayName",)), *get_values(user, ("name", "formatted")), joined, user["userName"])
    return next((name[:MAX_TEXT_LENGTH] for name in candidates if isinstance(name, str) and name and name.isprintable()), "")


def get_attributes(record: Record) -> dict[str, Any]:
    """Return a user's attributes as the provider set them.  `active` is omitted if a PATCH removed it; gate keeps the last state."""
    resource = dict(record.data["resource"])
    if record.data.get("active_unset"):
        del resource["active"]
    return resource


def render_user(record: Record, base: str) -> dict[str, Any]:
    rendered = {"schemas": [USER], **get_attributes(record)}
    if ENTERPRISE in rendered:
        rendered["schemas"] = [USER, ENTERPRISE]
    groups = [{"value": id, "$ref": f"{base}Groups/{id}"} for id in sorted(record.data["groups"])]
    return {**rendered, "id": record.id, "groups": groups, "meta": _meta(record, "User", base)}


def render_group(record: Record, base: str) -> dict[str, Any]:
    members = [{"value": id, "type": "User", "$ref": f"{base}Users/{id}"} for id in record.data["members"]]
    return {"schemas": [GROUP], **record.data["resource"], "id": record.id, "members": members, "meta": _meta(record, "Group", base)}


def get_etag(record: Record) -> str:
    return f'W/"{record.version}"'


def _meta(record: Record, kind: str, base: str) -> dict[str, str]:
    return {
        "resourceType": kind,
        "created": _time(record.data["created"]),
        "lastModified": _time(record.modified),
        "location": f"{base}{kind}s/{record.id}",
        "version": get_etag(record),
    }


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _normalize_names(document: Mapping[str, Any]) -> dict[str, Any]:
    normalized: dict[str, Any] = {}
    for name, value in iter_attributes(document):
        lower = name.lower()
        if lower in _IGNORED or value is None:
            continue
        name = next((known for lowered, known in _NAMES.items() if lowered == lower), name)
        normalized[name] = value
    return normalized


def _check_text(resource: Mapping[str, Any], name: str, *, required: bool = False) -> None:
    value = resource.get(name)
    if value is None and not required:
        return
    if not isinstance(value, str) or not value.strip() or not value.isprintable() or len(value) > MAX_TEXT_LENGTH:
        raise invalid(f"{name} must be text of 1 to {MAX_TEXT_LENGTH} printable characters")


def _boolean(value: Any) -> bool:
    """Return a boolean; Entra ID has sent them as text."""
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
        id = element.get(find_key(element, "value")) if isinstance(element, Mapping) else None
        if not isinstance(id, str) or not 0 < len(id) <= MAX_TEXT_LENGTH:
            raise invalid("each member must be an object with the id of a user as its value")
        ids[id] = None
    if len(ids) > MAX_MEMBERS:
        raise ScimError(413, f"a group must have at most {MAX_MEMBERS} members")
    return tuple(ids)
