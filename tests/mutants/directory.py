"""Defences of the directory's reading: all or nothing, one at a time, our credentials to one host, and never without an end."""

from tests.mutants.mutant import door
from tests.mutants.operations import never, omits, replaced, returns

UNIT = "unit/authenticate/directory"

api = door("authenticate.directory.vendors.api", f"{UNIT}/vendors/test_api.py")
api.without("an error tells no query", "_place", replaced("f\"{parts.hostname or ''}{parts.path}\"", 'f"{url}"'))

sync = door("authenticate.directory.sync", f"{UNIT}/test_sync.py")
sync.without("a reading replaces no look-up that came since its comparison", "apply", omits("only_if_version"))

reading = door("authenticate.directory.reading", f"{UNIT}/test_reading.py")
reading.without("only one reads at a time", "DirectoryReading.run", returns("await self._run()"))
reading.without("a reading has an end", "DirectoryReading._fetched", replaced("asyncio.timeout(self.timeout)", "asyncio.timeout(None)"))

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

settings = door("config.settings.directory", "unit/config/settings/test_directory.py", "unit/config/settings/test_identity_providers.py")
settings.without("who was never pushed has unknown groups", "groups_are_recorded", never("bool(settings.scim_token)"))

service = door("authenticate.directory.provider_directory", f"{UNIT}/test_provider_directory.py")
service.without("a late look-up replaces no newer record", "ProviderDirectory._put", omits("only_if_version"))
service.without(
    "a restart is no reason to ask anew", "DirectorySchedule._until_due", replaced("last.began + self._interval - self._clock()", "0.0")
)

DOORS = (api, sync, reading, builder, vendor, gitlab, settings, service)
