"""Audit log texts of changes that the provider pushed."""

from authenticate.scim.resources import get_display_name
from databroker.records import SCIM_USER, Record


def action(before: Record | None, after: Record | None) -> str:
    """Return the action on a user or group, or "" if nothing changed, because some providers push all users again every day."""
    record = after or before
    if record is None:
        return ""
    return _of_user(before, after) if record.type == SCIM_USER else _of_group(before, after)


def describe_object(record: Record, provider: str, prefix: str = "") -> tuple[str, str]:
    """Return the object's id and text, as the admin shows the same user or group elsewhere.  Ids of group records begin with `prefix`."""
    resource = record.data["resource"]
    if record.type == SCIM_USER:
        return f"{provider}/{record.data['subject']}", f"{get_display_name(resource)} ({resource['userName']})"
    return f"{prefix}{record.data['directory_id']}", resource["displayName"]


def _of_user(before: Record | None, after: Record | None) -> str:
    if after is None:
        return "deleted the user"
    old, new = before.data if before is not None else None, after.data
    is_active = new["resource"]["active"]
    if old is None:
        return "created the user" if is_active else "created the user, deactivated"
    if old["resource"]["active"] != is_active:
        return "activated the user" if is_active else "deactivated the user"
    if old["subject"] != new["subject"]:
        return "assigned the user to another subject"
    return "changed the user" if old["resource"] != new["resource"] else ""


def _of_group(before: Record | None, after: Record | None) -> str:
    old, new = (set(record.data["members"]) if record is not None else set[str]() for record in (before, after))
    if after is None:
        return f"deleted the group, with {len(old)} members"
    if before is None:
        return f"created the group, with {len(new)} members"
    parts = [f"{len(ids)} {word}" for ids, word in ((new - old, "joined"), (old - new, "left")) if ids]
    if before.data["resource"] != after.data["resource"]:
        parts.append("changed name or id")
    return f"changed the group: {', '.join(parts)}" if parts else ""
