"""Defences of several identity providers: whose word counts for whom, and what goes to which."""

from tests.mutants.mutant import door
from tests.mutants.operations import always, never, replaced, returns, skips

CONFIG = "unit/config/settings/test_identity_providers.py"
MIXED_UP = "unit/authenticate/test_several_providers.py"
JUDGED = "unit/authorize/test_several_providers.py"

entries = door("config.settings.identity_providers", CONFIG)
entry = door("config.settings.provider_entry", CONFIG, "unit/config/settings/test_provider_entry.py")
entries.without("two providers are two names", "_are_told_apart", never("entry.id == other.id"))
entries.without("an issuer is of one provider", "_are_told_apart", never("_are_one_issuer(entry.issuer, other.issuer)"))
entries.without(
    "a shared endpoint speaks for each tenant",
    "_are_one_issuer",
    replaced("is_issuer(other, one.replace(TENANT, tenant))", "False"),
)
entries.without("a token is of one provider", "_pushers_are_told_apart", never("known.setdefault(token.reveal(), index) != index"))
entries.without("each of several says whose addresses it tells", "_say_whose_addresses", never("entry.domains is None"))
entry.without("no provider is called as programs are", "_id", never("written in OF_NO_PROVIDER"))
entry.without("a domain is no pattern", "_domains", never("not _DOMAIN.fullmatch(domain)"))
entries.without("one more provider is not meant", "_stand_alone", replaced("[key for key in _OF_ONE if getattr(settings, key)]", "()"))
entry.without(
    "who is in which group is said by one source",
    "_one_directory",
    replaced('[key for key, value in is_set.items() if value] or [""]', '[""]'),
)
entries.without("a bearer token is shown to one provider", "_tokens_are_of_one_provider", never("len(route.identity_providers) != 1"))
entries.without("what a claim is worth depends on who says it", "_claims_are_of_named_providers", never("not route.identity_providers"))
entries.without("and in a policy, too", "_looks_at_claims", replaced('comparison.criterion == "claim"', "False"))

configured = door("config.identity_provider", JUDGED, CONFIG)
configured.without("an address is of its own domain", "ConfiguredProvider.speaks_for", always("domain in self.domains"))

entries.without(
    "an upstream is told whose name it is", "_told_claims", replaced("part.name.removeprefix(CLAIM) not in OURS_TO_TELL", "False")
)

loader = door("authorize.identity.loader", "unit/authorize/identity/test_loader.py")
loader.without("what is left of a directory says nothing", "IdentityLoader._identity", always("provider.has_directory"))
loader.without("a group is of the directory that names it", "IdentityLoader._groups", replaced("prefix + id", "id"))
loader.without(
    "a name gives way to an id of its own directory alone", "IdentityLoader._rule_group_names", replaced("prefix + name", "name")
)

own = door("databroker.own_records", "unit/databroker/test_own_records.py")
own.without("a directory says nothing of another's people", "OwnRecords._stored", never("not id.startswith(self._prefix)"))
own.without("a directory's groups are its own", "OwnRecords._stored", replaced("self._prefix + id", "id"))
own.without("a directory lists its own alone", "OwnRecords.page", always("record.id.startswith(self._prefix)"))
own.without("no directory waits for another", "OwnRecords.acquire", replaced("f\"{name} of {self._prefix.rstrip('/')}\"", "name"))
own.without("each of several has records of its own", "own_records", never("provider.is_entry"))

pushed = door("authenticate.scim.directory", "unit/authenticate/views/test_several_scim.py")
pushed.without("what is pushed is the pusher's", "ScimDirectory.__init__", replaced("own_records(broker, provider)", "broker"))

people = door("authenticate.directory.file", "unit/authenticate/directory/test_file.py")
people.without("a file names its own provider's people", "_DirectoryFileReader._user_id", never("not written.startswith(own)"))

removed_directories = door("authenticate.removed_directories", "unit/authenticate/test_removed_directories.py")
removed_directories.without(
    "what a removed directory had told goes",
    "RemovedDirectories._may_be_gone",
    replaced("of not in (self._pushed if type in _PUSHED else self._kept)", "False"),
)
removed_directories.without(
    "what was pushed goes with the token",
    "RemovedDirectories._may_be_gone",
    replaced("self._pushed if type in _PUSHED else self._kept", "self._kept"),
)
removed_directories.without(
    "a directory that is there keeps its records",
    "RemovedDirectories._may_be_gone",
    replaced("of not in (self._pushed if type in _PUSHED else self._kept)", "True"),
)

approvers = door("authorize.access_rules", "unit/authorize/test_access_rules.py")
approvers.without("an approver is of the route's providers", "_is_user_of", always("not route.identity_providers"))

records = door("authorize.identity.person_records", JUDGED)
address_facts = door("databroker.claims", JUDGED)
address_facts.without("no rule takes another's address", "rule_email_of", always('provider.speaks_for(email.rpartition("@")[2])'))
records.without("no upstream is told another's address", "told_email_of", always("provider.may_tell(said)"))
records.without("no claim of a session is another's address", "identity_of", never("tells_another_s"))
loaded = door("authorize.identity.person_records", "unit/authorize/identity/test_loader.py")
loaded.without(
    "an address of a directory is of its provider's domains",
    "identity_of",
    replaced("told_email_of(person.email, provider)", "_text(person.email)"),
)

identity = door("authorize.policy.identity", JUDGED)
names = door("foundation.email_address", JUDGED)
names.without("no name passes for an address", "display_name", never("is_like_an_address(name)"))
shown = door("config.identity_provider", "unit/config/test_identity_provider.py")
shown.without("nobody is found by an address that is not theirs to have", "told_email", always("provider.may_tell(email)"))
shown.without(
    "and not by one of a provider that is gone",
    "told_email",
    replaced("email if provider is not None and provider.may_tell(email) else ''", "email"),
)
rows = door("databroker.tables.rows", "unit/databroker/tables/test_rows.py")
rows.without("an address that is not verified stands apart", "_addresses", always("counted.verified_email(id, said) == signed_in_with"))
rows.without(
    "part of an address is another address",
    "_addresses",
    replaced("counted.verified_email(id, said) == signed_in_with", "counted.verified_email(id, said)"),
)
rows.without("a directory does not verify what a sign-in doubts", "_addresses", always("is_other"))
rows.without("no name in the tables passes for an address", "add_user", replaced("display_name(...)", '_text(said, "name", 255)'))
logged = door("databroker.adminsite.audit", "unit/databroker/adminsite/test_audit.py")
logged.without(
    "the audit log calls nobody by another's address", "name_in_claims", replaced("verified_email(...)", 'claims.get("email", "")')
)
granted = door("gateproject.management.commands.grants", "unit/gateproject/management/commands/test_grants.py")
granted.without("nobody's access is revoked by another's address", "_address_of", replaced("told_email(...)", "record.person"))
identity.without("a subject alone says nobody", "Identity.__post_init__", replaced("self.is_own and self.is_sole", "self.is_own"))

entry_checks = door("authorize.user_entry_checks", JUDGED)
entry_checks.without("a subject names its provider", "subjects_of_nobody_in_particular", never("entry.kind is EntryKind.SUBJECT"))

routes = door("authorize.policy.compiled_route", JUDGED)
routes.without("a route is for its providers' people", "_other_providers", never("route.identity_providers"))
criteria = door("authorize.policy.criteria", JUDGED)
criteria.without("others are kept out", "signed_in_elsewhere.judge", replaced("identity.provider not in listed", "False"))

named_groups = door("databroker.claims", JUDGED)
named_groups.without("no claim is the one without a name", "groups_among", never("not groups_claim"))

choice = door("authenticate.provider_choice", MIXED_UP)
choice.without("a link leads to a provider of its route", "ProviderChoice.among", replaced("not ids or id in ids", "True"))
choice.without("a removed provider is nobody's", "ProviderChoice.among", never("not found"))

pages = door("authenticate.views.sign_in", MIXED_UP)
pages.without(
    "another site does not choose what a browser remembers",
    "choose",
    replaced('request.headers.get("Sec-Fetch-Site") == "same-origin"', "True"),
)
pages.without("a choice says each thing once", "choose", never("any((len(values) > 1 for values in said.values()))"))

programs = door("authenticate.views.program", MIXED_UP)
programs.without(
    "a program acts for nobody whom no route takes",
    "program",
    never("wanted.providers and session.provider not in wanted.providers"),
)
of_host = door("proxy.service", "unit/proxy/views/test_program_login.py")
of_host.without("a host is for some people where all of its routes are", "ProxyService.providers_at", always("all(named)"))

flow = door("authenticate.provider.django_oidc", MIXED_UP)
flow.without(
    "a code that another has seen is no answer", "GateCallbackView.get", never("not await self.service.spend_code(params['code'])")
)
codes = door("authenticate.service", MIXED_UP)
codes.without("a code is known in capitals", "_essence", replaced("code.lower()", "code"))
codes.without("a code is known with signs behind it", "_essence", replaced("'[^a-z0-9]|[a-z0-9](?=[^a-z0-9]|$)'", "'$'"))

removed = door("authenticate.removed_providers", "unit/authenticate/test_removed_providers.py")
removed.without("sessions of a removed provider end", "RemovedProviders._end", skips("ended = await end_sessions(self._broker, ids)"))
removed.without(
    "and with the keys of one provider those of entries", "RemovedProviders._gone", always("provider is not None and not self._has_entries")
)
removed_directories.without(
    "what a directory of an entry had told goes with the keys of one provider",
    "RemovedDirectories._of_entries",
    replaced("record.type in _OF_ENTRIES or (_owner(record) in entries and ...)", "record.type in _OF_ENTRIES"),
)
removed_directories.without("who is out stays out", "RemovedDirectories._of_entries", always("not record.data.get('is_deactivated')"))
codes_of_one = door("authenticate.service", "unit/authenticate/test_service.py")
codes_of_one.without("a code is spent once", "AuthenticateService.spend_code", returns("True"))

refresh = door("authenticate.session.refresh", "unit/authenticate/session/test_refresh.py")
refresh.without("one that is slow keeps nobody else waiting", "SessionRefresh._turn", never("self._under_way[provider] >= self._share"))

DOORS = (
    *(entry, own, pushed, people, removed_directories, loaded),
    *(entries, configured, loader, approvers, records, identity, entry_checks, routes, criteria, choice, pages, programs, of_host),
    *(address_facts, named_groups, flow, codes, removed, refresh),
    *(names, shown, rows, logged, granted, codes_of_one),
)
