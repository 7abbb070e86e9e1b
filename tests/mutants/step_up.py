"""Defences of the step-up: whose sign-in is strong and new enough, that nothing makes it so but a sign-in, and that it ends somewhere."""

from tests.mutants.mutant import door

decision = door("authorize/policy/decision.py", "unit/authorize/policy/test_step_up.py")
decision.without(
    "a route's strength is asked for", "return _unless_weak(decision, route) if route.strengths else decision", "return decision"
)
decision.without(
    "whoever needs no session needs one for its strength",
    "outcome = Outcome.SIGN_IN if case.identity is None else Outcome.STEP_UP",
    "outcome = Outcome.ALLOWED if case.identity is None else Outcome.STEP_UP",
)

ways = door("config/routes/values.py", "unit/proxy/sign_in/test_redirects.py", "unit/config/routes/test_values.py")
ways.without("no way to sign in breaks a header", "        if not _ACR.fullmatch(value):\n", "        if False:\n")

step_up = door("authorize/policy/step_up.py", "unit/authorize/policy/test_step_up.py")
step_up.without("a sign-in grows old", "return TRUE if case.now - authenticated <= limit else FALSE", "return TRUE")
step_up.without("an unknown age is none that fits", "if authenticated <= 0.0:", "if False:")

identity_facts = door("authorize/identity/person_records.py", "unit/authorize/identity/test_person_records.py")
identity_facts.without("another session lends no strength", " if name not in OF_THE_SIGN_IN}", "}")

records = door("databroker/records.py", "unit/authorize/identity/test_person_records.py")
records.without(
    "a session without auth_time is of unknown age",
    "        return 0.0\n    return min(",
    "        return issued if said is None else 0.0\n    return min(",
)
records.without("nobody proved who they are after the session began", "return min(max(float(said), 0.0), issued)", "return float(said)")

record = door("databroker/records.py", "unit/databroker/test_records.py")
record.without("a session's record is its own", "if session.id != record.id or not isinstance", "if not isinstance")

renewal = door("authenticate/session/renewal.py", "unit/authenticate/session/test_renewal.py")
renewal.without(
    "a refresh makes no sign-in stronger",
    "payload = {name: value for name, value in payload.items() if name not in OF_THE_SIGN_IN}",
    "pass",
)
renewal.without(
    "a refresh takes no strength away", "payload |= {name: session.claims[name] for name in OF_THE_SIGN_IN & session.claims.keys()}", "pass"
)

asked = door("authenticate/step_up.py", "unit/authenticate/test_step_up.py", "unit/authenticate/views/test_authorization_request.py")
asked.without("a weak answer is seen", 'if self.acr_values and claims.get("acr") not in self.acr_values:', "if False:")
asked.without("an old answer is seen", "return OLD if now - authenticated > self.max_age else", "return")
asked.without("an answer without its age is seen", "if authenticated <= 0.0:", "if False:")
asked.without("the age is asked for by name", "            if takes_claims:\n", "            if False:\n")

sign_in = door("authenticate/views/sign_in.py", "unit/authenticate/views/test_authorization_request.py")
sign_in.without(
    "a weak session goes not straight back",
    " and not (shortfall := asked.shortfall(session.claims, session.issued, now)):",
    ' and not (shortfall := ""):',
)
callback = door("authenticate/views/callback.py", "unit/authenticate/views/test_authorization_request.py")
callback.without(
    "a weak answer makes no session", "if shortfall := asked.shortfall(self.signed_in.user.claims, now, now):", 'if shortfall := "":'
)
callback.without("an answer without what was asked is refused at once", "if shortfall == UNTOLD:", "if False:")
callback.without("a person is pressed once", "if target is not None and not asked.is_pressed:", "if target is not None:")

sessions = door("authenticate/session/sessions.py", "unit/authenticate/views/test_authorization_request.py")
sessions.without("somebody else's session ends", "if before is None or before.user_id != user_id or", "if before is None or")
sessions.without("a record stays small", " or len(before.earlier) >= MAX_EARLIER:", ":")

forward_auth = door("proxy/sign_in/views.py", "unit/proxy/sign_in/test_views.py")
forward_auth.without(
    "a weak session is no reason to go back",
    "return check.identity is not None and check.decision.outcome is not Outcome.STEP_UP",
    "return check.identity is not None",
)

DOORS = (decision, ways, step_up, identity_facts, records, record, renewal, asked, sign_in, callback, sessions, forward_auth)
