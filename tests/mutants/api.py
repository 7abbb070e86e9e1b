"""Defences of the API: who gets in, what they may, and that nobody comes to more by it."""

from tests.mutants.mutant import door
from tests.mutants.operations import always, never, omits, replaced, returns, skips

# In place of a step of which the audit log hears.
UNTOLD = '__import__("contextlib").nullcontext()'

access = door("authenticate.api.access", "unit/authenticate/api/test_access.py")
access.without("a permission is needed", "ApiProgram.check", never("permission not in self.account.permissions"))
access.without("only a service account's token gets in", "ApiAccess.program_of", never("isinstance(account, RefusedToken)"))

accounts = door("authorize.identity.service_accounts", "unit/authenticate/api/test_access.py")
accounts.without("an API token is the account's secret", "account_with", always("_is_its_secret(token, read.account, now)"))

approvers = door("authorize.access_rules", "unit/authorize/test_access_rules.py")
approvers.without("a program is no approver by a group", "AccessRules._names_account", always("user_id in part.operand"))
approvers.without("who is named in a negation is not named", "AccessRules._names_account", always("not part.is_negated"))
approvers.without("only a user entry names a program", "AccessRules._names_account", always('part.criterion == "user"'))

desk = door("authenticate.access.desk", "unit/authenticate/api/test_access_requests.py")
desk.without(
    "the yes of a revoked program counts no more",
    "AccessDesk._counts",
    never("identity is None or identity.person_id != approval.user_id"),
)

desk.without(
    "what a secret that has ended said counts no more",
    "AccessDesk._counts",
    never("identity.provider == PROVIDER and identity.issued > approval.at"),
)

made = door("authenticate.api.service_accounts", "unit/authenticate/api/test_service_accounts.py")
made.without("no program gives a permission that it lacks", "lifetime_of", never("name not in own.permissions"))
made.without(
    "no program puts others into groups that it is not in", "lifetime_of", replaced("sorted(set(wanted.groups) - set(own.groups))", "[]")
)
made.without("no program makes an account of any name", "lifetime_of", never('not wanted.name.startswith(f"{own.name}{OWN}")'))
made.without(
    "no program makes one that outlives it",
    "lifetime_of",
    never("wanted.lifetime_seconds is not None and wanted.lifetime_seconds > left"),
)
made.without("an end is the maker's at the latest", "create_service_account", omits("not_after"))
made.without(
    "an account is made when the log has been told",
    "create_service_account",
    replaced("call.step(CREATES, FAILED, ServiceAccount, [(name, name)])", UNTOLD),
)

inherited = door("authenticate.api.service_accounts", "unit/authenticate/api/test_access_requests.py")
inherited.without("who knows a program's secret knows those of what it makes", "create_service_account", omits("shown_to"))
kept = door("databroker.service_accounts", "unit/authenticate/api/test_access_requests.py")
kept.without("who sees a new secret is kept", "ServiceAccounts.rotate", omits("shown_to"))
found = door("databroker.service_accounts", "unit/databroker/test_service_accounts.py")
found.without("a maker that is gone is known by its name", "_is_made_by", never("(known := by_name.get(maker)) is None"))
vouching = door("authorize.identity.service_accounts", "unit/authorize/identity/test_service_accounts.py")
vouching.without("an account ends with its makers' secrets", "_read", never("now >= until"))
vouching.without("an end of a maker is noticed", "ServiceAccountLoader._is_current", replaced("known.makers", "()"))
inherited.without(
    "an account is bound to the secret that made it",
    "create_service_account",
    omits("maker_secret_hash"),
    "unit/authenticate/api/test_service_accounts.py",
)
answering = door("authenticate.api.access_requests", "unit/authenticate/api/test_access_requests.py")
answering.without("an address is compared as rules do", "_known_to", replaced("canonical_email(name) or name", "name"))

in_admin = door("databroker.adminsite.service_account_admin", "unit/databroker/adminsite/test_service_account_admin.py")
in_admin.without("an administrator sees a secret as the person they are", "_eyes", returns("()"))

sessions = door("authenticate.api.sessions", "unit/authenticate/api/test_sessions.py")
sessions.without(
    "an end is told of before",
    "_end",
    replaced("audited(tell, ENDS, NOT_ENDED)", UNTOLD),
)
sessions.without(
    "an end of all is told of before", "end_sessions_of_person", replaced("call.step(ENDS_ALL, NOT_ENDED_ALL, User, person)", UNTOLD)
)

call = door("authenticate.api.call", "unit/authenticate/api/test_call.py")
call.without(
    "what can't be told is not done",
    "ApiCall.record",
    skips('raise AuditLogAway("audit log write failed") from error'),
)

telling = door("authenticate.access.telling", "unit/authenticate/access/test_telling.py")
telling.without("a step is told of before it is taken", "audited", skips("await tell(does)"))
telling.without("what failed is told", "audited", skips("await tell_failure(tell, failed)"))

view = door("authenticate.views.api", "unit/authenticate/views/test_api.py")
view.without("the permission is asked for", "_answer", skips("program.check(operation.permission)"))
view.without("the API takes pages nobody's turn", "_place", never("not service.api_places.take(program)"))
view.without("a place is free again", "_place", skips("service.api_places.leave(program)"))

cursors = door("authenticate.api.cursors", "unit/authenticate/api/test_cursors.py")
cursors.without("a cursor is one list's", "keys_in", never("said[0] != list_name"))
cursors.without("a cursor is something to look for", "_is_key", returns("True"))

reading = door("authenticate.api.reading", "unit/authenticate/api/test_reading.py")
reading.without("a key is said once", "query_of", never("len(said) != len(pairs)"))
reading.without("a body is short", "body_of", never("len(content) > MOST_BYTES"))
reading.without("who needs no body gets none", "body_of", never("content"))

DOORS = (
    access,
    accounts,
    approvers,
    desk,
    made,
    inherited,
    kept,
    found,
    vouching,
    answering,
    in_admin,
    sessions,
    call,
    telling,
    view,
    cursors,
    reading,
)
