"""Audit log words of a change that the provider pushed."""

from authenticate.scim.resources import name_of
from databroker.records import SCIM_USER, Record


def action(before: Record | None, after: Record | None) -> str:
    """The action on a user or a group; "" where all is as it was: some providers push everybody again every day."""
    some = after or before
    if some is None:
        return ""
    return _of_user(before, after) if some.type == SCIM_USER else _of_group(before, after)


def object_of(record: Record, provider: str, prefix: str = "") -> tuple[str, str]:
    """(id, words) of the object, as the admin names the same person or group elsewhere; ids of records of groups begin with `prefix`."""
    resource = record.data["resource"]
    if record.type == SCIM_USER:
        return f"{provider}/{record.data['subject']}", f"{name_of(resource)} ({resource['userName']})"
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
    said = [f"{len(ids)} {word}" for ids, word in ((new - old, "joined"), (old - new, "left")) if ids]
    if before.data["resource"] != after.data["resource"]:
        said.append("changed name or id")
    return f"changed the group: {', '.join(said)}" if said else ""
