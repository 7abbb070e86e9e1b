"""Defences of the step-up: whose sign-in is strong and new enough, that nothing makes it so but a sign-in, and that it ends somewhere."""

from tests.mutants.mutant import door
from tests.mutants.operations import always, never, replaced, skips

decision = door("authorize.policy.decision", "unit/authorize/policy/test_step_up.py")
decision.without("a route's strength is asked for", "judge", never("route.strengths"))
decision.without(
    "whoever needs no session needs one for its strength",
    "_unless_weak",
    replaced("Outcome.SIGN_IN", "Outcome.ALLOWED"),
)

ways = door("config.routes.values", "unit/proxy/sign_in/test_redirects.py", "unit/config/routes/test_values.py")
ways.without("no way to sign in breaks a header", "acr_values", never("not _ACR.fullmatch(value)"))

step_up = door("authorize.policy.step_up", "unit/authorize/policy/test_step_up.py")
step_up.without("a sign-in grows old", "_recent.judge", always("case.now - authenticated <= limit"))
step_up.without("an unknown age is none that fits", "_recent.judge", never("authenticated <= 0.0"))

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

record = door("databroker.records", "unit/databroker/test_records.py")
record.without("a session's record is its own", "SessionRecord.from_record", never("session.id != record.id"))

renewal = door("authenticate.session.renewal", "unit/authenticate/session/test_renewal.py")
renewal.without(
    "a refresh makes no sign-in stronger",
    "with_new_claims",
    skips("payload = ..."),
)
renewal.without("a refresh takes no strength away", "with_new_claims", skips("payload |= ..."))

asked = door("authenticate.step_up", "unit/authenticate/test_step_up.py", "unit/authenticate/views/test_authorization_request.py")
asked.without("a weak answer is seen", "StepUpRequest.shortfall", never('self.acr_values and claims.get("acr") not in self.acr_values'))
asked.without("an old answer is seen", "StepUpRequest.shortfall", never("now - authenticated > self.max_age"))
asked.without("an answer without its age is seen", "StepUpRequest.shortfall", never("authenticated <= 0.0"))
asked.without("the age is asked for by name", "StepUpRequest.request_params", never("takes_claims"))

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
callback.without("an answer without what was asked is refused at once", "CallbackView._weaker", never("shortfall == UNTOLD"))
callback.without("a person is pressed once", "CallbackView._weaker", never("asked.is_pressed"))

sessions = door("authenticate.session.sessions", "unit/authenticate/views/test_authorization_request.py")
sessions.without("somebody else's session ends", "_earlier", never("before.user_id != user_id"))
sessions.without("a record stays small", "_earlier", never("len(before.earlier) >= MAX_EARLIER"))

forward_auth = door("proxy.views.route_host", "unit/proxy/views/test_route_host.py")
forward_auth.without(
    "a weak session is no reason to go back",
    "_may_return",
    always("check.decision.outcome is not Outcome.STEP_UP"),
)

DOORS = (decision, ways, step_up, identity_facts, records, record, renewal, asked, sign_in, callback, sessions, forward_auth)
