"""Defences of linked accounts: who is one person by which word, and what of it ends when the word changes."""

from tests.mutants.mutant import door
from tests.mutants.operations import replaced

JUDGED, AT_SIGN_IN = "unit/authorize/test_linked_accounts.py", "unit/authenticate/test_linked_accounts.py"

desk = door("authenticate.access.desk", "unit/authenticate/access/test_desk.py")
desk.without("linked accounts are one person", "Caller.holder", replaced("self.identity.linked_id", '""'))
desk.without(
    "an account approves nothing that it asked as another person",
    "Caller.approval",
    replaced("(self.session.user_id, *self.known_to)", "self.known_to"),
)
asked = door("databroker.access.asked", "unit/authenticate/access/test_desk.py")
asked.without("a request remembers the account", "AskedAccess.names", replaced("self.account", '""'))
replaced_service = door("authenticate.service", AT_SIGN_IN)
replaced_service.without(
    "late writers are found by a second sweep", "AuthenticateService._sweep", replaced("SWEEP_PAUSES", "SWEEP_PAUSES[:1]")
)
replaced_service.without(
    "late pushes are found by a second sweep", "AuthenticateService._tidy", replaced("SWEEP_PAUSES", "SWEEP_PAUSES[:1]")
)

DOORS = (desk, asked, replaced_service)
