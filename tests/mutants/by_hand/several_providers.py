"""Defences of several identity providers: which provider speaks for which user, and where requests go."""

from tests.mutants.mutant import door
from tests.mutants.operations import replaced, skips

CONFIG = "unit/config/settings/test_identity_providers.py"
MIXED_UP = "unit/authenticate/test_several_providers.py"
AUTHORIZE_TESTS = "unit/authorize/test_several_providers.py"

entries = door("config.settings.identity_providers", CONFIG)
entries.without(
    "one more provider is not meant",
    "_check_no_single_provider_keys",
    replaced("(key for key in SINGLE_PROVIDER_KEYS.values() if key not in PLACEHOLDERS)", "_WITH_DEFAULT"),
)

loader = door("authorize.identity.identity_loader", "unit/authorize/identity/test_identity_loader.py")
loader.without("a group is of the directory that names it", "IdentityLoader._groups", replaced("prefix + id", "id"))
loader.without(
    "a name yields to an id of the same directory only", "IdentityLoader._matchable_group_names", replaced("prefix + name", "name")
)

own = door("databroker.provider_scope", "unit/databroker/test_provider_scope.py")
own.without("a directory's groups are its own", "ProviderScopedBroker._to_stored_id", replaced("self._prefix + id", "id"))
own.without("no directory waits for another", "ProviderScopedBroker.acquire", replaced("f\"{name} of {self._prefix.rstrip('/')}\"", "name"))

pushed = door("authenticate.scim.scim_directory", "unit/authenticate/views/test_several_scim.py")
pushed.without("what is pushed is the pusher's", "ScimDirectory.__init__", replaced("provider_scoped(broker, provider)", "broker"))

removed_directories = door("authenticate.removed_directories", "unit/authenticate/test_removed_directories.py")
removed_directories.without(
    "records of a removed directory go",
    "RemovedDirectories._is_candidate",
    replaced("provider not in (self._with_scim if type in _SCIM_TYPES else self._with_directory)", "False"),
)
removed_directories.without(
    "a directory that is there keeps its records",
    "RemovedDirectories._is_candidate",
    replaced("provider not in (self._with_scim if type in _SCIM_TYPES else self._with_directory)", "True"),
)

loaded = door("authorize.identity.identity_builder", "unit/authorize/identity/test_identity_loader.py")
loaded.without(
    "an address of a directory is of its provider's domains",
    "build_identity",
    replaced("authoritative_email(directory_user.email, provider)", "_text(directory_user.email)"),
)

rows = door("databroker.projection.rows", "unit/databroker/projection/test_rows.py")
rows.without(
    "part of an address is another address",
    "_select_addresses",
    replaced("provider_claims.verified_email(id, user_data) == signed_in_with", "provider_claims.verified_email(id, user_data)"),
)
rows.without("no name in the tables passes for an address", "add_user", replaced("display_name(...)", '_text(user_data, "name", 255)'))
logged = door("databroker.audit_log", "unit/databroker/test_audit_log.py")
logged.without(
    "the audit log names no user username another's address", "name_in_claims", replaced("verified_email(...)", 'claims.get("email", "")')
)
granted = door("gateproject.management.commands.grants", "unit/gateproject/management/commands/test_grants.py")
granted.without("no user's access is revoked by another's address", "_verified_address", replaced("owned_email_for(...)", "record.person"))

codes = door("authenticate.replay_guard", MIXED_UP)
codes.without("a code is known in capitals", "_canonical_code", replaced("code.lower()", "code"))
codes.without("a code is known with signs behind it", "_canonical_code", replaced("'[^a-z0-9]|[a-z0-9](?=[^a-z0-9]|$)'", "'$'"))

removed = door("authenticate.removed_providers", "unit/authenticate/test_removed_providers.py")
removed.without("sessions of a removed provider end", "RemovedProviders._end", skips("ended = await end_sessions(self._broker, ids)"))

# Defences of linked accounts: who is one person by which word, and what of it ends when the word changes.

AUTHORIZE_TESTS, AT_SIGN_IN = "unit/authorize/test_linked_accounts.py", "unit/authenticate/test_linked_accounts.py"

desk = door("authenticate.access_requests.access_request_service", "unit/authenticate/access_requests/test_access_request_service.py")
desk.without("linked accounts are one person", "AccessActor.grant_subject", replaced("self.identity.linked_id", '""'))
desk.without(
    "an account approves nothing that it asked as another person",
    "AccessActor.as_approval",
    replaced("(self.session.user_id, *self.secret_viewers)", "self.secret_viewers"),
)
requests = door("databroker.grants.access_request_store", "unit/authenticate/access_requests/test_access_request_service.py")
requests.without("a request remembers the account", "AccessRequest.identifiers", replaced("self.account_id", '""'))
replaced_service = door("authenticate.background_work", AT_SIGN_IN)
replaced_service.without(
    "late writers are found by a second sweep", "BackgroundWork._clean_up_sessions", replaced("CLEANUP_DELAYS", "CLEANUP_DELAYS[:1]")
)
replaced_service.without(
    "late pushes are found by a second sweep", "BackgroundWork._clean_up_directories", replaced("CLEANUP_DELAYS", "CLEANUP_DELAYS[:1]")
)
