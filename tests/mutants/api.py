"""Defences of the API: who gets in, what they may, and that nobody comes to more by it."""

from tests.mutants.mutant import door
from tests.mutants.operations import always, omits, replaced, returns

# In place of a step of which the audit log hears.
UNTOLD = '__import__("contextlib").nullcontext()'

approvers = door("authorize.access_rules", "unit/authorize/test_access_rules.py")
approvers.without("a program is no approver by a group", "AccessRules._names_account", always("user_id in part.operand"))

made = door("authenticate.api.service_accounts", "unit/authenticate/api/test_service_accounts.py")
made.without(
    "no program puts others into groups that it is not in", "lifetime_of", replaced("sorted(set(wanted.groups) - set(own.groups))", "[]")
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
vouching = door("authorize.identity.service_accounts", "unit/authorize/identity/test_service_accounts.py")
vouching.without("an end of a maker is noticed", "ServiceAccountLoader._is_current", replaced("known.makers", "()"))
inherited.without(
    "an account is bound to the secret that made it",
    "create_service_account",
    omits("maker_secret_hash"),
    "unit/authenticate/api/test_service_accounts.py",
)

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

DOORS = (approvers, made, inherited, kept, vouching, in_admin, sessions)
