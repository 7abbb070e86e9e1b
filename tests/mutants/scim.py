"""Defences of what a provider pushes: who may push, whom it is about, and what a deactivation ends."""

from tests.mutants.mutant import door

access = door("authenticate/scim/access.py", "unit/authenticate/scim/test_access.py")
access.without("a push needs the token", "return any(hmac.compare_digest(digest, known) for known in self._digests)", "return True")
access.without("a stranger's body is short", "path.startswith(PATH) and self.admits(authorization)", "path.startswith(PATH)")

view = door("authenticate/views/scim.py", "unit/authenticate/views/test_scim.py")
view.without("the token is asked for", "if not service.scim_access.admits(", "if False and not service.scim_access.admits(")
view.without("nothing is pushed unless that is configured", "if not service.scim_access:", "if False:")
view.without("what is pushed is bounded in depth", "if _depth(document) > DEEPEST:", "if False:")

callback = door("authenticate/views/callback.py", "unit/authenticate/views/test_scim.py")
callback.without("the deactivated don't come back", "await service.scim.is_deactivated(session)", "False")

directory = door(
    "authenticate/scim/directory.py",
    "unit/authenticate/scim/test_directory.py",
    "unit/authenticate/scim/test_access_records.py",
    "unit/authenticate/views/test_scim.py",
)
directory.without(
    "a deactivation ends the sessions", '        if not user["active"]:\n            await self._access.end_sessions(subject)\n', ""
)
records = door(
    "authenticate/scim/access_records.py",
    "unit/authenticate/scim/test_access_records.py",
    "unit/authenticate/scim/test_directory.py",
    "unit/authenticate/views/test_scim.py",
)
records.without(
    "a deactivation is known to decisions",
    "active if is_active(user) else DirectoryUser(id, is_deactivated=True, issuer=issuer)",
    "active",
)
records.without("who is somebody else now has no groups", "await self._broker.delete(DIRECTORY_USER, id)", "pass")
records.without("a deactivation ends that person's sessions only", 'if record.data.get("user_id") == user_id]', "]")
records.without(
    "a deleted user stays out",
    "await self._put(DIRECTORY_USER, DirectoryUser(id, is_deactivated=True, issuer=self.issuer))",
    "await self._broker.delete(DIRECTORY_USER, id)",
)
records.without(
    "who was pushed of another issuer's people stays theirs", "        if issuer_of(resource):\n            return resource\n", ""
)
records.without(
    "whose people they are is known to decisions", "name_of(resource), group_ids, issuer=issuer)", "name_of(resource), group_ids)"
)
records.without("another issuer's groups are not taken along", "if group not in others}", "}")
records.without(
    "another issuer has told what it has told",
    "for group, by in told_by.items() if not counts_for(by, self.issuer)}",
    "for group, by in () }",
)
directory.without(
    "a deleted user has no access",
    '            await self._access.take(old.data["subject"], is_out=True)\n            await self._index',
    "            await self._index",
)
directory.without("a group begins anew with each issuer", " if self._access.is_ours(old) else []", "")
directory.without("who is in a group is looked at anew for each issuer", " and self._access.is_ours(old)\n", "\n")
directory.without("a group says nothing of who its members are", "others[group_id] = self._access.issuer", "pass")
directory.without(
    "a deactivation is of one issuer's person",
    "counts_for(issuer_of(record), session.vouched_by) and not is_active(record)",
    "not is_active(record)",
)
directory.without("a deleted user stays out after a restart", ' and not record.data.get("is_deactivated")', "")
directory.without("who left a group is no longer in it", 'await self._set_memberships(before - set(members), id, "")', "pass")
directory.without("who was deactivated stays out under the old id", 'not (user["active"] and is_active(old))', 'not user["active"]')
directory.without(
    "who is deactivated with a new id stays out under the old one", 'not (user["active"] and is_active(old))', "not is_active(old)"
)
directory.without("another id is another person", 'if old is not None and old.data["subject"] != subject:', "if False:")
directory.without("a PUT does not activate by omission", "user_of(document, was_active=is_active(old))", "user_of(document)")
directory.without("a PATCH does not activate by omission", "user_of(changed, was_active=is_active(old))", "user_of(changed)")
directory.without("what another directory left is removed", "if record.id not in ids and not", "if False and not")
directory.without("a newer version is not overwritten", "raise ScimError(412,", "ScimError(412,")

index = door("authenticate/scim/index.py", "unit/authenticate/scim/test_index.py", "unit/authenticate/scim/test_directory.py")
index.without("one person is one resource", 'raise ScimError(409, f"another', 'ScimError(409, f"another')

attributes = door("authenticate/scim/attributes.py", "unit/authenticate/scim/test_attributes.py")
attributes.without("what stands under the core schema is of the resource", "yield from _unwrapped(value)", "yield name, value")
attributes.without("a full name is the attribute's", "yield name[len(core) + 1 :], value", "yield name, value")
attributes.without("what is said twice is refused", "if name.lower() in seen:", "if False:")

patch = door("authenticate/scim/patch.py", "unit/authenticate/scim/test_patch.py")
patch.without(
    "a path that is the core schema is the resource",
    "    if not target.path:\n        if not isinstance",
    "    if False:\n        if not isinstance",
)
patch.without(
    "ids are the server's own",
    "    if target.path[0].lower() in READ_ONLY:\n        return\n    holder = _made_holder(resource, target.path)",
    "    holder = _made_holder(resource, target.path)",
)

resources = door("authenticate/scim/resources.py", "unit/authenticate/scim/test_resources.py", "unit/authenticate/views/test_scim.py")
resources.without("who says nothing of active changes nothing of it", 'user.get("active", was_active)', 'user.get("active", True)')
resources.without(
    "active in an object of the core schema counts",
    "for name, value in attributes_in(document):\n        lower",
    "for name, value in document.items():\n        lower",
)
resources.without("passwords are not kept", '"password", ', "")

filters = door("authenticate/scim/filters.py", "unit/authenticate/scim/test_filters.py")
filters.without("a filter is bounded in depth", "if depth > DEEPEST:", "if False:")
filters.without("a filter is bounded in length", "if len(text) > LONGEST:", "if False:")

trail = door("authenticate/scim/audit_trail.py", "unit/authenticate/scim/test_audit_trail.py", "unit/authenticate/views/test_scim.py")
trail.without("what waits to be told is bounded", "if len(self._waiting) >= MOST_WAITING:", "if False:")
trail.without("what can't be told is done all the same", "    except Error as error:\n", "    except ZeroDivisionError as error:\n")

changes = door("authenticate/scim/changes.py", "unit/authenticate/scim/test_changes.py")
changes.without(
    "a deactivation is called one", 'if old["resource"]["active"] != is_active:', 'if old["resource"]["active"] == is_active == "no":'
)

DOORS = (access, view, callback, records, directory, index, attributes, patch, resources, filters, trail, changes)
