"""Defences of the directory's reading: all or nothing, one at a time, our credentials to one host, and never without an end."""

from tests.mutants.mutant import door

UNIT = "unit/authenticate/directory"

api = door("authenticate/directory/api.py", f"{UNIT}/test_api.py")
api.without("a next page on another host gets no credentials", "if _origin(url) != _origin(self.base):", "if False:")
api.without("a URL of two readings has no origin", 'or "\\\\" in url or not url.isascii()', "or not url.isascii()")
api.without("a listing has a bound", "or len(seen) >= MAX_PAGES", "")
api.without("a listing does not go in circles", "if url in seen or", "if")
api.without("what is not accepted is an error", "        if answer.status not in accept:\n            raise _refused(answer, url)\n", "")
api.without("nobody waits past the end of the reading", "if seconds >= self.budget.left:", "if False:")
api.without("an error tells no query", "{parts.hostname or ''}{parts.path}", "{url}")

sync = door("authenticate/directory/sync.py", f"{UNIT}/test_sync.py")
sync.without("more than half stays", "if gone * 2 > changes.known[record_type]:", "if False:")
sync.without(
    "who is in no group is known to be in none",
    "if value is None and isinstance(held, DirectoryUser) and snapshot.unlisted and",
    "if False and isinstance(held, DirectoryUser) and",
)
sync.without("more than half keeps its groups", "(changes.emptied if record_type == DIRECTORY_USER else 0)", "0")
sync.without("a look-up is newer than a reading that began before", "if record.modified > began:", "if False:")

reading = door("authenticate/directory/reading.py", f"{UNIT}/test_reading.py")
reading.without("a reading that would remove too much stops", "if not self.options.force:", "if False:")
reading.without("only one reads at a time", "return await run_alone(self.broker, LEASE, self._run)", "return await self._run()")
reading.without("a reading has an end", "async with asyncio.timeout(self.timeout):", "async with asyncio.timeout(None):")
reading.without(
    "a dry run writes nothing", "if not self.options.dry_run:\n                await apply", "if True:\n                await apply"
)

builder = door("authenticate/directory/builder.py", f"{UNIT}/test_builder.py")
builder.without("a listed person is their issuer's", "belongs.pop(id, ())))), issuer=issuer)", "belongs.pop(id, ())))))")
vendor = door("authenticate/directory/vendor.py", f"{UNIT}/test_vendor.py", f"{UNIT}/test_service.py")
vendor.without("who is looked up is their issuer's person", "tuple(sorted(groups)), issuer=self.issuer)", "tuple(sorted(groups)))")
vendor.without("a group that is looked up is their issuer's", "replace(groups[id], issuer=self.issuer)", "groups[id]")

azure = door("authenticate/directory/azure.py", f"{UNIT}/test_azure.py", "contract/test_directories.py")
azure.without("a listing without its end is not whole", "if not isinstance(following, str) or not following:", "if False:")

azure.without("whom it lists are one tenant's", "issuer.replace(TENANT, tenant) if is_tenant(tenant) else issuer", "issuer")

okta = door("authenticate/directory/okta.py", f"{UNIT}/test_okta.py")
okta.without("changed members are read again", "before.members[id][0] == stamp", "True")

gitlab = door("authenticate/directory/gitlab.py", f"{UNIT}/test_gitlab.py")
gitlab.without("a group of one's own does not count", "for id in theirs & known.keys()", "for id in theirs if known.setdefault(id, id)")
gitlab.without("a group is named by its path", '"full_path", "name"', '"name"')
gitlab.without("a group that one merely sees does not count", ", min_access_level=GUEST)", ")")

auth0 = door("authenticate/directory/auth0.py", f"{UNIT}/test_auth0.py")
auth0.without("a listing that shifts is not believed", "if len(listed) != total:", "if False:")

settings = door("config/groups/directory.py", "unit/config/groups/test_directory.py")
settings.without("who was never pushed has unknown groups", "        return bool(settings.scim_token)\n", "        return False\n")
settings.without(
    "a vendor's directory is asked before a deny is lifted",
    "return is_elsewhere or account_of(settings) is not None",
    "return is_elsewhere",
)
settings.without("a directory of another process counts", "return is_elsewhere or", "return")

account = door("config/groups/directory_account.py", "unit/config/groups/test_directory_account.py")
account.without("a directory is one tenant's", "and written not in _SHARED_TENANTS", "")

service = door("authenticate/directory/service.py", f"{UNIT}/test_service.py")
service.without("another issuer's group is another one", " or not counts_for(DirectoryGroup.from_record(known).issuer, group.issuer)", "")
service.without("a restart is no reason to ask anew", "return last.began + self._interval - self._clock()", "return 0.0")

DOORS = (api, sync, reading, builder, vendor, azure, okta, gitlab, auth0, settings, account, service)
