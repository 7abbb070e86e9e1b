"""Defences of the step-up: whose sign-in is strong and new enough, that nothing makes it so but a sign-in, and that it ends somewhere."""

from tests.mutants.mutant import door
from tests.mutants.operations import replaced, skips

decision = door("authorize.policy.decision", "unit/authorize/policy/test_step_up.py")
decision.without(
    "whoever needs no session needs one for its strength",
    "_unless_weak",
    replaced("Outcome.SIGN_IN", "Outcome.ALLOWED"),
)

identity_facts = door("authorize.identity.person_records", "unit/authorize/identity/test_person_records.py")
identity_facts.without(
    "another session lends no claim",
    "identity_of",
    replaced("flattened(session.claims)", "flattened(user.claims) | flattened(session.claims)"),
)

records = door("databroker.records", "unit/authorize/identity/test_person_records.py")
records.without(
    "a session without auth_time is of unknown age",
    "authenticated_at",
    replaced("return 0.0", "return issued if said is None else 0.0"),
)
records.without(
    "nobody proved who they are after the session began", "authenticated_at", replaced("min(max(float(said), 0.0), issued)", "float(said)")
)

renewal = door("authenticate.session.renewal", "unit/authenticate/session/test_renewal.py")
renewal.without(
    "a refresh makes no sign-in stronger",
    "with_new_claims",
    skips("payload = ..."),
)

sign_in = door("authenticate.views.sign_in", "unit/authenticate/views/test_authorization_request.py")
sign_in.without(
    "a weak session goes not straight back",
    "_begin",
    replaced("asked.shortfall(session.claims, session.issued, now)", '""'),
)
callback = door("authenticate.views.callback", "unit/authenticate/views/test_authorization_request.py")
callback.without(
    "a weak answer makes no session", "CallbackView.login_success", replaced("asked.shortfall(self.signed_in.user.claims, now, now)", '""')
)

DOORS = (decision, identity_facts, records, renewal, sign_in, callback)
