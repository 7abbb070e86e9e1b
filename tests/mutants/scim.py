"""Defences of what a provider pushes: who may push, whom it is about, and what a deactivation ends."""

from tests.mutants.mutant import door
from tests.mutants.operations import always, lacks, never, omits, passes, replaced, skips

access = door("authenticate.scim.access", "unit/authenticate/scim/test_access.py")
access.without("a push needs the token", "ScimAccess.pusher", always("hmac.compare_digest(digest, known)"))
access.without("a stranger's body is short", "ScimAccess.most_bytes", always("self.pusher(authorization) is not None"))

view = door("authenticate.views.scim", "unit/authenticate/views/test_scim.py", "unit/authenticate/views/test_several_scim.py")
view.without("the token says whose users are pushed", "scim", replaced("service.scim[pusher]", "next(iter(service.scim.values()))"))
view.without("nothing is pushed unless that is configured", "scim", never("not service.scim_access"))
view.without("what is pushed is bounded in depth", "_document", never("_depth(document) > DEEPEST"))

callback = door("authenticate.views.callback", "unit/authenticate/views/test_scim.py")
callback.without("the deactivated don't come back", "CallbackView.login_success", never("await service.is_deactivated(session)"))

directory = door(
    "authenticate.scim.directory",
    "unit/authenticate/scim/test_directory.py",
    "unit/authenticate/scim/test_access_records.py",
    "unit/authenticate/views/test_scim.py",
)
directory.without("a deactivation ends the sessions", "ScimDirectory._write_user", never('not user["active"]'))
records = door(
    "authenticate.scim.access_records",
    "unit/authenticate/scim/test_access_records.py",
    "unit/authenticate/scim/test_directory.py",
    "unit/authenticate/views/test_scim.py",
)
records.without(
    "a deactivation is known to decisions",
    "AccessRecords.write",
    always("is_active(user)"),
)
records.without("who is somebody else now has no groups", "AccessRecords.take", skips("await self._broker.delete(...)"))
records.without(
    "a deleted user stays out",
    "AccessRecords.take",
    replaced("self._deactivate(id, self.issuer)", "self._broker.delete(DIRECTORY_USER, id)"),
)
records.without(
    "a deactivation is of all cases of a userName",
    "AccessRecords._deactivate",
    replaced("self._provider.deactivation_id(id)", "id"),
)
records.without("only a deactivation is deleted", "AccessRecords._reactivate", always('record.data.get("is_deactivated")'))
user_names = door("config.identity_provider", "unit/authenticate/scim/test_directory.py")
user_names.without("a userName has no case", "ConfiguredProvider.deactivation_id", replaced("subject.casefold()", "subject"))
user_names.without("an externalId has", "ConfiguredProvider.deactivation_id", never('self.scim_user_id != "userName"'))
found_records = door("databroker.session_reader", "unit/authenticate/scim/test_directory.py", "unit/authorize/identity/test_loader.py")
found_records.without("another case gives nobody groups", "find_directory_record", always("person.is_deactivated"))
records.without("who was pushed of another issuer's people stays theirs", "AccessRecords.noted", never("issuer_of(resource)"))
records.without(
    "whose people they are is known to decisions",
    "AccessRecords.write",
    replaced(
        "DirectoryUser(id, email_of(resource), name_of(resource), group_ids, issuer=issuer)",
        "DirectoryUser(id, email_of(resource), name_of(resource), group_ids)",
    ),
)
records.without("another issuer's groups are not taken along", "AccessRecords.write", always("group not in others"))
records.without(
    "another issuer has told what it has told",
    "AccessRecords.told_by_others",
    replaced("{group: by for group, by in told_by.items() if not counts_for(by, self.issuer)}", "{group: by for group, by in ()}"),
)
directory.without(
    "a deleted user has no access",
    "ScimDirectory.delete_user",
    skips("await self._access.take(...)"),
)
directory.without("a group begins anew with each issuer", "ScimDirectory.patch_group", always("self._access.is_ours(old)"))
directory.without("who is in a group is looked at anew for each issuer", "ScimDirectory._write_group", always("self._access.is_ours(old)"))
directory.without("a group says nothing of who its members are", "ScimDirectory._set_membership", skips("others[group_id] = ..."))
directory.without(
    "a deactivation is of one issuer's person",
    "ScimDirectory.is_deactivated",
    always("counts_for(issuer_of(record), session.vouched_by)"),
)
directory.without("a deleted user stays out after a restart", "ScimDirectory.tidy", never('record.data.get("is_deactivated")'))
directory.without("who left a group is no longer in it", "ScimDirectory._write_group", skips("await self._set_memberships(...)"))
directory.without("who was deactivated stays out under the old id", "ScimDirectory._write_user", always("is_active(old)"))
directory.without(
    "who is deactivated with a new id stays out under the old one", "ScimDirectory._write_user", passes(is_out="not is_active(old)")
)
directory.without("another id is another person", "ScimDirectory._write_user", never('old is not None and old.data["subject"] != subject'))
directory.without("a PUT does not activate by omission", "ScimDirectory.replace_user", omits("was_active"))
directory.without("a PATCH does not activate by omission", "ScimDirectory.patch_user", omits("was_active"))
directory.without("what another directory left is removed", "ScimDirectory.tidy", never("record.id not in ids"))
directory.without(
    "a newer version is not overwritten",
    "ScimDirectory._to_change",
    replaced("raise ScimError(...)", 'ScimError(412, "the resource was changed meanwhile")'),
)

index = door("authenticate.scim.index", "unit/authenticate/scim/test_index.py", "unit/authenticate/scim/test_directory.py")
index.without(
    "one person is one resource",
    "ScimIndex.check",
    replaced("raise ScimError(...)", "ScimError(409, f\"another resource has this {attribute.replace('_', ' ')}\", \"uniqueness\")"),
)

attributes = door("authenticate.scim.attributes", "unit/authenticate/scim/test_attributes.py")
attributes.without(
    "what stands under the core schema is of the resource",
    "_unwrapped",
    replaced("(yield from _unwrapped(value))", "(yield (name, value))"),
)
attributes.without("a full name is the attribute's", "_unwrapped", replaced("name[len(core) + 1 :]", "name"))
attributes.without("what is said twice is refused", "attributes_in", never("name.lower() in seen"))

patch = door("authenticate.scim.patch", "unit/authenticate/scim/test_patch.py")
patch.without(
    "a path that is the core schema is the resource",
    "_set",
    never("not target.path"),
)
patch.without(
    "ids are the server's own",
    "_set",
    never("target.path[0].lower() in READ_ONLY"),
)

resources = door("authenticate.scim.resources", "unit/authenticate/scim/test_resources.py", "unit/authenticate/views/test_scim.py")
resources.without(
    "who says nothing of active changes nothing of it", "user_of", replaced('user.get("active", was_active)', 'user.get("active", True)')
)
resources.without(
    "active in an object of the core schema counts",
    "_named",
    replaced("attributes_in(document)", "document.items()"),
)
resources.without("passwords are not kept", "_LEFT_OUT", lacks('"password"'))

filters = door("authenticate.scim.filters", "unit/authenticate/scim/test_filters.py")
filters.without("a filter is bounded in depth", "_Parser._joined", never("depth > DEEPEST"))
filters.without("a filter is bounded in length", "parse", never("len(text) > LONGEST"))

trail = door("authenticate.audit_trail", "unit/authenticate/test_audit_trail.py", "unit/authenticate/views/test_scim.py")
trail.without("what waits to be told is bounded", "AuditTrail.note", never("len(self._waiting) >= MOST_WAITING"))
trail.without("what can't be told is done all the same", "_write", replaced("OperationalError", "ZeroDivisionError"))
trail.without("one odd entry loses no other", "_write", replaced("_write_one(entry)", "AssertionError()"))

changes = door("authenticate.scim.changes", "unit/authenticate/scim/test_changes.py")
changes.without(
    "a deactivation is called one",
    "_of_user",
    replaced('old["resource"]["active"] != is_active', 'old["resource"]["active"] == is_active == "no"'),
)

DOORS = (
    access,
    view,
    callback,
    records,
    directory,
    index,
    attributes,
    patch,
    resources,
    filters,
    trail,
    changes,
    user_names,
    found_records,
)
