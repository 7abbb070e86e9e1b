"""Defences of linked accounts: who is one person by which word, and what of it ends when the word changes."""

from tests.mutants.mutant import door
from tests.mutants.operations import always, never, replaced

JUDGED, AT_SIGN_IN = "unit/authorize/test_linked_accounts.py", "unit/authenticate/test_linked_accounts.py"

links = door("config.settings.linked_accounts", "unit/config/settings/test_linked_accounts.py")
links.without("a link has two ends", "links_have_two_ends", never("entry.link_by and others.isdisjoint(...)"))
records = door("authorize.identity.person_records", JUDGED)
records.without("only what says so is linked", "linked_id_of", never("not provider.links_by_email"))
records.without("by an address of any domain nobody is linked", "linked_id_of", never("provider.domains is None"))
records.without(
    "an address of which nobody says that it is verified links nobody",
    "linked_id_of",
    never("not (provider.trusts_email or any(map(is_yes, email_assertions(user, session_claims))))"),
)
records.without("an address that does not count links nobody", "linked_id_of", always("email"))
addresses = door("databroker.claims", "unit/authorize/identity/test_person_records.py")
addresses.without(
    "a session of another address is another person's",
    "rule_email_of",
    never("not is_address_of_session(email, session_claims)"),
)
desk = door("authenticate.access.desk", "unit/authenticate/access/test_desk.py")
desk.without("linked accounts are one person", "Caller.holder", replaced("self.identity.linked_id", '""'))
desk.without(
    "an account approves nothing that it asked as another person",
    "Caller.approval",
    replaced("(self.session.user_id, *self.known_to)", "self.known_to"),
)
asked = door("databroker.access.asked", "unit/authenticate/access/test_desk.py")
asked.without("a request remembers the account", "AskedAccess.names", replaced("self.account", '""'))
no_ids = door("authorize.user_entry_checks", JUDGED)
no_ids.without("no rule names a linked person by their id", "_ids_of_linked_people", never('written.startswith(f"{VERIFIED_EMAIL}/")'))
of_linked = door("authenticate.session.sessions", AT_SIGN_IN)
of_linked.without("nobody is linked without an id", "Sessions._are_of_one_person", replaced("bool(linked_id)", "True"))
of_linked.without(
    "whose address is another now is somebody else", "Sessions._ids_of_person", always("await self._are_of_one_person(session, found)")
)
linked_index = door("authenticate.session.linked_index", AT_SIGN_IN)
linked_index.without("sessions of before a link are indexed", "LinkedIndex.run", never("self._sessions.links_accounts"))
of_linked.without(
    "a service that is replaced leaves no session of a removed provider", "Sessions.create", never("self.successor is not None")
)
replaced_service = door("authenticate.service", AT_SIGN_IN)
replaced_service.without(
    "late writers are found by a second sweep", "AuthenticateService._sweep", replaced("SWEEP_PAUSES", "SWEEP_PAUSES[:1]")
)
replaced_service.without(
    "late pushes are found by a second sweep", "AuthenticateService._tidy", replaced("SWEEP_PAUSES", "SWEEP_PAUSES[:1]")
)
renewal = door("authenticate.session.renewal", AT_SIGN_IN)
renewal.without(
    "an account that becomes another person's signs in anew",
    "with_new_claims",
    never("_becomes_another(client, session, user, claims)"),
)

DOORS = (links, records, addresses, desk, asked, no_ids, of_linked, linked_index, replaced_service, renewal)
