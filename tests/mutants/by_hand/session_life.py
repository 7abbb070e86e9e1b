"""Defences of a session's life: one renewal at a time, about the same person, and what has ended stays ended."""

from tests.mutants.mutant import door
from tests.mutants.operations import omits, replaced, skips

updates = door("databroker.broker_client", "unit/databroker/test_broker_client.py")
updates.without("an update loses no concurrent write", "update", omits("only_if_version"))

refresh = door("authenticate.session.session_refresh", "unit/authenticate/session/test_session_refresh.py")
refresh.without(
    "a session has one renewal anywhere",
    "SessionRefresh._exclusive",
    replaced("raise RefreshInProgress", "yield\nreturn"),
)
refresh.without(
    "a provider that refuses ends the session",
    "SessionRefresh.renew",
    replaced("await self._end(session, REFUSED, error)", "Ended"),
)
refresh.without(
    "a wrong answer ends the session",
    "SessionRefresh.renew",
    replaced("(SubjectMismatch, ClaimsTooLarge, InvalidSignedToken)", "(SubjectMismatch, ClaimsTooLarge)"),
)

renewal = door("authenticate.session.refresh_grant", "unit/authenticate/session/test_refresh_grant.py")
renewal.without("a token that is not of now says nothing", "_verify_refreshed_id_token", replaced("TokenNotCurrent", "ZeroDivisionError"))

issuers = door("config.issuers", "unit/config/test_issuers.py")
issuers.without(
    "a tenant says nothing of its whole host",
    "applies_to_issuer",
    replaced("matches_issuer(recorded_issuer, issuer)", "matches_issuer(issuer, said_by)"),
)
own_sessions = door("authenticate.session.session_service", "unit/authenticate/session/test_session_service.py")
own_sessions.without("a session knows its issuer", "SessionService._build", omits("issuer"))

worker = door("authenticate.session.refresh_worker", "unit/authenticate/session/test_refresh_worker.py")
refresh.without("a late answer about a user replaces no newer one", "SessionRefresh._save_user", omits("only_if_version"))
worker.without(
    "the provider is tried for a minute first",
    "RefreshFailures.ends_at",
    replaced("self.started_at + FAILURE_GRACE", "self.started_at"),
)

tokens = door("authenticate.provider.tokens.token_response", "unit/authenticate/provider/tokens/test_token_response.py")
tokens.without(
    "a token fits into a header",
    "_token",
    replaced(
        'not isinstance(value, str) or len(value) > MAX_TOKEN or not value.isascii() or not value.isprintable() or " " in value',
        "not isinstance(value, str) or len(value) > MAX_TOKEN",
    ),
)

wanted = door("authenticate.session.refresh_requests", "unit/authenticate/session/test_refresh_requests.py")
wanted.without("a slow provider holds up no other", "RefreshRequests._renew", replaced("self._semaphores[...]", "self._semaphores['']"))
wanted.without(
    "a provider's refreshes that requests wait for are bounded",
    "RefreshRequests.__init__",
    replaced("asyncio.Semaphore(concurrency)", "asyncio.Semaphore(999)"),
)

# Defences of the step-up: whose sign-in is strong and new enough, that nothing makes it so but a sign-in, and that it ends somewhere.

decision = door("authorize.policy.decision", "unit/authorize/policy/test_step_up.py")
decision.without(
    "a route without session requires one for its strength",
    "_require_step_up",
    replaced("Outcome.SIGN_IN", "Outcome.ALLOWED"),
)

snapshot_identity = door("authorize.identity.identity_builder", "unit/authorize/identity/test_identity_builder.py")
snapshot_identity.without(
    "another session lends no claim",
    "build_identity",
    replaced("flatten_claims(session.claims)", "flattened(user.claims) | flatten_claims(session.claims)"),
)

records = door("databroker.records", "unit/authorize/identity/test_identity_builder.py")
records.without(
    "a session without auth_time is of unknown age",
    "auth_time_in",
    replaced("return 0.0", "return issued if said is None else 0.0"),
)
records.without(
    "auth_time is never after the session's start", "auth_time_in", replaced("min(max(float(value), 0.0), issued_at)", "float(value)")
)

renewal = door("authenticate.session.refresh_grant", "unit/authenticate/session/test_refresh_grant.py")
renewal.without(
    "a refresh makes no sign-in stronger",
    "reload_claims",
    skips("payload = ..."),
)

sign_in = door("authenticate.views.sign_in", "unit/authenticate/views/test_authorization_request.py")
sign_in.without(
    "a weak session goes not straight back",
    "_begin",
    replaced("step_up.unmet_requirement(session.claims, session.issued_at, now)", '""'),
)
callback = door("authenticate.views.callback", "unit/authenticate/views/test_authorization_request.py")
callback.without(
    "a weak answer makes no session",
    "CallbackView.login_success",
    replaced("step_up.unmet_requirement(self.sign_in_result.user.claims, now, now)", '""'),
)
