"""Defences of the directory's reading: all or nothing, one at a time, our credentials to one host, and never without an end."""

from tests.mutants.mutant import door
from tests.mutants.operations import always, never, omits, replaced, returns

UNIT = "unit/authenticate/directory"

api = door("authenticate.directory.vendors.api", f"{UNIT}/vendors/test_api.py")
api.without("a next page on another host gets no credentials", "DirectoryApi._url", never("_origin(url) != _origin(self.base)"))
api.without("a URL of two readings has no origin", "_origin", never(r'"\\" in url'))
api.without("a listing has a bound", "DirectoryApi.pages", never("len(seen) >= MAX_PAGES"))
api.without("a listing does not go in circles", "DirectoryApi.pages", never("url in seen"))
api.without("what is not accepted is an error", "DirectoryApi._asked", never("answer.status not in accept"))
api.without("nobody waits past the end of the reading", "DirectoryApi._wait", never("seconds >= self.budget.left"))
api.without("an error tells no query", "_place", replaced("f\"{parts.hostname or ''}{parts.path}\"", 'f"{url}"'))

sync = door("authenticate.directory.sync", f"{UNIT}/test_sync.py")
sync.without("more than half stays", "check_removals", never("gone * 2 > changes.known[record_type]"))
sync.without(
    "who is in no group is known to be in none",
    "difference",
    never("value is None and isinstance(held, DirectoryUser) and snapshot.unlisted and record.id.startswith(snapshot.unlisted)"),
)
sync.without("more than half keeps its groups", "check_removals", never("record_type == DIRECTORY_USER"))
sync.without("a look-up is newer than a reading that began before", "difference", never("record.modified > began"))
sync.without("a reading replaces no look-up that came since its comparison", "apply", omits("only_if_version"))
sync.without("nothing is newer than a directory's file", "difference", always("began != NEVER_SKIPPED"))

reading = door("authenticate.directory.reading", f"{UNIT}/test_reading.py")
reading.without("a reading that would remove too much stops", "DirectoryReading._run", never("not self.options.force"))
reading.without("only one reads at a time", "DirectoryReading.run", returns("await self._run()"))
reading.without("a reading has an end", "DirectoryReading._fetched", replaced("asyncio.timeout(self.timeout)", "asyncio.timeout(None)"))
reading.without(
    "a dry run writes nothing", "DirectoryReading._run", replaced("if not self.options.dry_run: await apply(...)", "await apply(...)")
)

builder = door("authenticate.directory.vendors.builder", f"{UNIT}/vendors/test_builder.py")
builder.without("a listed person is their issuer's", "DirectoryBuilder.snapshot", omits("issuer"))
vendor = door("authenticate.directory.vendors.vendor", f"{UNIT}/vendors/test_vendor.py", f"{UNIT}/test_provider_directory.py")
vendor.without(
    "who is looked up is their issuer's person",
    "Vendor.person",
    replaced("DirectoryUser(..., email, name, tuple(...), issuer=self.issuer)", "DirectoryUser(..., email, name, tuple(...))"),
)
vendor.without(
    "a group that is looked up is their issuer's", "Vendor.person", replaced("replace(groups[id], issuer=self.issuer)", "groups[id]")
)

azure = door("authenticate.directory.vendors.azure", f"{UNIT}/vendors/test_azure.py", "contract/test_directories.py")
azure.without("a listing without its end is not whole", "_read", never("not isinstance(following, str) or not following"))

azure.without("whom it lists are one tenant's", "AzureDirectory.issuer_of_people", never("is_tenant(tenant)"))

okta = door("authenticate.directory.vendors.okta", f"{UNIT}/vendors/test_okta.py")
okta.without("changed members are read again", "OktaDirectory.fetch", always("before.members[id][0] == stamp"))

gitlab = door("authenticate.directory.vendors.gitlab", f"{UNIT}/vendors/test_gitlab.py")
gitlab.without(
    "a group of one's own does not count",
    "GitLabDirectory.look_up",
    replaced(
        "{id: DirectoryGroup(...) for id in theirs & known.keys()}",
        "{id: DirectoryGroup(...) for id in theirs if known.setdefault(id, id)}",
    ),
)
gitlab.without("a group is named by its path", "_name", returns('text_of(group, "name")'))
gitlab.without("a group that one merely sees does not count", "GitLabDirectory.look_up", omits("min_access_level"))

auth0 = door("authenticate.directory.vendors.auth0", f"{UNIT}/vendors/test_auth0.py")
auth0.without("a listing that shifts is not believed", "_numbered", never("len(listed) != total"))

settings = door("config.settings.directory", "unit/config/settings/test_directory.py", "unit/config/settings/test_identity_providers.py")
settings.without("who was never pushed has unknown groups", "groups_are_recorded", never("bool(settings.scim_token)"))
settings.without(
    "a vendor's directory is asked before a deny is lifted",
    "groups_are_recorded",
    never("account_of(settings) is not None"),
)
settings.without(
    "a directory of another process counts",
    "groups_are_recorded",
    replaced("_may_be_elsewhere(settings, ..., claimed_groups(settings))", "False"),
)
settings.without(
    "a vendor's directory of another process counts",
    "entry_is_recorded",
    replaced("_may_be_elsewhere(settings, entry.provider, entry.groups_claim)", "False"),
)

account = door("config.settings.directory_account", "unit/config/settings/test_directory_account.py")
account.without("a directory is one tenant's", "is_tenant", always("written not in _SHARED_TENANTS"))

service = door("authenticate.directory.provider_directory", f"{UNIT}/test_provider_directory.py")
service.without(
    "another issuer's group is another one",
    "ProviderDirectory._write",
    always("counts_for(DirectoryGroup.from_record(known).issuer, group.issuer)"),
)
service.without("a late look-up replaces no newer record", "ProviderDirectory._put", omits("only_if_version"))
service.without(
    "a restart is no reason to ask anew", "DirectorySchedule._until_due", replaced("last.began + self._interval - self._clock()", "0.0")
)

DOORS = (api, sync, reading, builder, vendor, azure, okta, gitlab, auth0, settings, account, service)
