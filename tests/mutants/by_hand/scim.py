"""Defences of what a provider pushes: who may push, which user it concerns, and what a deactivation ends."""

from tests.mutants.mutant import door
from tests.mutants.operations import always, lacks, never, omits, replaced, returns

view = door(
    "authenticate.views.scim_endpoint", "unit/authenticate/views/test_scim_endpoint.py", "unit/authenticate/views/test_several_scim.py"
)
view.without("the token says whose users are pushed", "scim", replaced("service.scim[provider_id]", "next(iter(service.scim.values()))"))

directory = door(
    "authenticate.scim.scim_directory",
    "unit/authenticate/scim/test_scim_directory.py",
    "unit/authenticate/scim/test_directory_writer.py",
    "unit/authenticate/views/test_scim_endpoint.py",
)
records = door(
    "authenticate.scim.directory_writer",
    "unit/authenticate/scim/test_directory_writer.py",
    "unit/authenticate/scim/test_scim_directory.py",
    "unit/authenticate/views/test_scim_endpoint.py",
)
records.without(
    "a deleted user stays out",
    "DirectoryWriter.remove_user",
    replaced("self._deactivate(id, self.issuer)", "self._broker.delete(DIRECTORY_USER, id)"),
)
records.without(
    "a deactivation is of all cases of a userName",
    "DirectoryWriter._deactivate",
    replaced("self._provider.deactivation_id(id)", "id"),
)
user_names = door("config.provider_config", "unit/authenticate/scim/test_scim_directory.py")
user_names.without("a userName has no case", "ProviderConfig.deactivation_id", replaced("subject.casefold()", "subject"))
records.without(
    "whose people they are is known to decisions",
    "DirectoryWriter.write",
    replaced(
        "DirectoryUser(id, get_email(resource), get_display_name(resource), group_ids, issuer=issuer)",
        "DirectoryUser(id, get_email(resource), get_display_name(resource), group_ids)",
    ),
)
records.without(
    "records of another issuer stay those of that issuer",
    "DirectoryWriter.groups_from_other_issuers",
    replaced(
        "{group: issuer for group, issuer in issuers.items() if not applies_to_issuer(issuer, self.issuer)}",
        "{group: issuer for group, issuer in ()}",
    ),
)
directory.without("membership is evaluated for each issuer", "ScimGroups._write", always("self._access.is_current_issuer(old)"))
directory.without("a PUT does not activate by omission", "ScimUsers.replace", omits("was_active"))
directory.without("a PATCH does not activate by omission", "ScimUsers.patch", omits("was_active"))
directory.without(
    "a newer version is not overwritten",
    "ScimDirectory.get_for_update",
    replaced("raise ScimError(...)", 'ScimError(412, "the resource was changed meanwhile")'),
)

index = door("authenticate.scim.index", "unit/authenticate/scim/test_index.py", "unit/authenticate/scim/test_scim_directory.py")
index.without(
    "one person is one resource",
    "ScimIndex.check_unique",
    replaced("raise ScimError(...)", "ScimError(409, f\"another resource has this {attribute.replace('_', ' ')}\", \"uniqueness\")"),
)

attributes = door("authenticate.scim.attribute_paths", "unit/authenticate/scim/test_attribute_paths.py")
attributes.without(
    "what stands under the core schema is of the resource",
    "_unwrapped",
    replaced("(yield from _unwrapped(value))", "(yield (name, value))"),
)
attributes.without("a full name is the attribute's", "_unwrapped", replaced("name[len(core) + 1 :]", "name"))

resources = door("authenticate.scim.resources", "unit/authenticate/scim/test_resources.py", "unit/authenticate/views/test_scim_endpoint.py")
resources.without(
    "who says nothing of active changes nothing of it", "parse_user", replaced('user.get("active", was_active)', 'user.get("active", True)')
)
resources.without(
    "active in an object of the core schema counts",
    "_normalize_names",
    replaced("iter_attributes(document)", "document.items()"),
)
resources.without("passwords are not kept", "_IGNORED", lacks('"password"'))

trail = door("authenticate.audit_writer", "unit/authenticate/test_audit_writer.py", "unit/authenticate/views/test_scim_endpoint.py")
trail.without("a change without audit entry still applies", "_write_entries", replaced("OperationalError", "ZeroDivisionError"))
trail.without("one odd entry loses no other", "_write_entries", replaced("_write_one(entry)", "AssertionError()"))

changes = door("authenticate.scim.audit_text", "unit/authenticate/scim/test_audit_text.py")
changes.without(
    "a deactivation is called one",
    "_of_user",
    replaced('old["resource"]["active"] != is_active', 'old["resource"]["active"] == is_active == "no"'),
)

# Defences of the directory's reading: all or nothing, one at a time, our credentials to one host, and never without an end.

UNIT = "unit/authenticate/directory"

api = door("authenticate.directory.vendors.directory_api", f"{UNIT}/vendors/test_directory_api.py")
api.without("an error contains no query", "_loggable_url", replaced("f\"{parts.hostname or ''}{parts.path}\"", 'f"{url}"'))

sync = door("authenticate.directory.sync", f"{UNIT}/test_sync.py")
sync.without("a reading replaces no look-up that came since its comparison", "apply", omits("only_if_version"))

reading = door("authenticate.directory.sync_run", f"{UNIT}/test_sync_run.py")
reading.without("only one reads at a time", "SyncRun.run", returns("await self._run()"))
reading.without("a reading has an end", "SyncRun._fetch", replaced("asyncio.timeout(self.timeout)", "asyncio.timeout(None)"))

builder = door("authenticate.directory.vendors.snapshot_builder", f"{UNIT}/vendors/test_snapshot_builder.py")
builder.without("a listed person is their issuer's", "DirectoryBuilder.snapshot", omits("issuer"))
vendor = door("authenticate.directory.vendors.vendor", f"{UNIT}/vendors/test_vendor.py", f"{UNIT}/test_provider_directory.py")
vendor.without(
    "who is looked up is their issuer's person",
    "Vendor.build_member",
    replaced("DirectoryUser(..., email, name, tuple(...), issuer=self.issuer)", "DirectoryUser(..., email, name, tuple(...))"),
)
vendor.without(
    "a group that is looked up is their issuer's", "Vendor.build_member", replaced("replace(groups[id], issuer=self.issuer)", "groups[id]")
)

gitlab = door("authenticate.directory.vendors.gitlab_directory", f"{UNIT}/vendors/test_gitlab_directory.py")
gitlab.without(
    "a group of one's own does not count",
    "GitLabDirectory.look_up",
    replaced(
        "{id: DirectoryGroup(...) for id in user_groups & known.keys()}",
        "{id: DirectoryGroup(...) for id in user_groups if known.setdefault(id, id)}",
    ),
)
gitlab.without("a group is named by its path", "_name", returns('text_of(group, "name")'))
gitlab.without("a group that one merely sees does not count", "GitLabDirectory.look_up", omits("min_access_level"))

settings = door(
    "config.settings.group_sources", "unit/config/settings/test_group_sources.py", "unit/config/settings/test_identity_providers.py"
)
settings.without("who was never pushed has unknown groups", "has_group_records", never("bool(entry.scim_token)"))

service = door("authenticate.directory.provider_directory", f"{UNIT}/test_provider_directory.py")
service.without("a late look-up replaces no newer record", "ProviderDirectory._put", omits("only_if_version"))
service.without(
    "a restart does not repeat a run",
    "SyncScheduler._seconds_until_due",
    replaced("last.started_at + self._interval - self._clock()", "0.0"),
)
