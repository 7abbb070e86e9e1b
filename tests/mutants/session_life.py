"""Defences of a session's life: one renewal at a time, about the same person, and what has ended stays ended."""

from tests.mutants.mutant import door
from tests.mutants.operations import always, never, omits, replaced, skips

refresh = door("authenticate.session.refresh", "unit/authenticate/session/test_refresh.py")
refresh.without(
    "a session has one renewal anywhere",
    "SessionRefresh._alone",
    replaced("raise RefreshUnderWay", "yield\nreturn"),
)
refresh.without("a delete wins over a refresh", "SessionRefresh._written", omits("only_if_version"))
refresh.without("new tokens are not lost", "SessionRefresh._written_at_last", always("now() + wait >= ends"))
refresh.without("what came too late is revoked", "SessionRefresh._with_new_tokens", skips("await client.revoke(renewed)"))
refresh.without("another process's refresh is not repeated", "SessionRefresh._renewed", always("tokens_due(session) <= now"))
refresh.without(
    "a provider that refuses ends the session",
    "SessionRefresh.renew",
    replaced("await self._ended(session, REFUSED, error)", "Ended"),
)
refresh.without(
    "a wrong answer ends the session",
    "SessionRefresh.renew",
    replaced("(AnotherPerson, ClaimsTooLarge, WrongToken)", "(AnotherPerson, ClaimsTooLarge)"),
)

renewal = door("authenticate.session.renewal", "unit/authenticate/session/test_renewal.py")
renewal.without(
    "a refreshed ID token is about the same person",
    "_refreshed_payload",
    never('(refreshed["iss"], refreshed["sub"]) != (before.get("iss"), before.get("sub"))'),
)
renewal.without("what userinfo no longer tells is gone", "with_new_claims", replaced("() if newer else session.userinfo_claims", "()"))
renewal.without("a token that is not of now says nothing", "_refreshed_payload", replaced("WrongTime", "ZeroDivisionError"))
renewal.without("a renewed person is the same person", "with_new_claims", never("user.id != session.user_id"))
renewal.without(
    "a token goes to no other provider",
    "_check_origin",
    never("not vouches(client.provider, session)"),
)

session_use = door("databroker.session_reader", "unit/databroker/test_session_reader.py", "unit/authorize/identity/test_loader.py")
session_use.without(
    "a session is of the configured issuer", "SessionReader.read", never("not vouches(self.providers.get(session.provider), session)")
)
session_use.without("a session is of the configured provider", "vouches", always("session.provider == provider.id"))
session_use.without("whose name alone says little", "vouches", always("is_issuer(provider.issuer, session.vouched_by)"))
session_use.without("two people of one id are two", "user_of", always("user.vouched_by == session.vouched_by"))
session_use.without(
    "whom another issuer's directory names is another person", "person_of", always("counts_for(person.issuer, session.vouched_by)")
)
session_use.without("two groups of one id are two", "group_of", always("counts_for(group.issuer, session.vouched_by)"))
issuers = door("config.issuers", "unit/config/test_issuers.py")
issuers.without(
    "a tenant says nothing of its whole host",
    "counts_for",
    replaced("is_issuer(said_by, issuer)", "is_issuer(issuer, said_by)"),
)
own_sessions = door("authenticate.session.sessions", "unit/authenticate/session/test_sessions.py")
own_sessions.without("sessions of two tabs end together", "Sessions._add_earlier", always("other_id in earlier"))
own_sessions.without(
    "sessions of two users do not",
    "Sessions._end_together",
    always("(found.user_id, found.vouched_by) == (session.user_id, session.vouched_by)"),
)
own_sessions.without("a session knows its issuer", "Sessions._new", omits("issuer"))

worker = door("authenticate.session.refresh_worker", "unit/authenticate/session/test_refresh_worker.py")
refresh.without("a late answer about a user replaces no newer one", "SessionRefresh._remember", omits("only_if_version"))
worker.without("an expired session ends in trouble", "RefreshWorker._failed", never("now >= ends and isinstance(error, ProviderError)"))
worker.without(
    "the provider is tried for a minute first",
    "RefreshFailures.ends",
    replaced("self.since + GRACE", "self.since"),
)
worker.without(
    "tokens that a failed attempt renewed vouch for nobody",
    "RefreshWorker._failed",
    replaced("self._failures.get(session_id) or RefreshFailures(...)", "RefreshFailures(now, session.access_token_expires or NEVER)"),
)

tokens = door("authenticate.provider.tokens", "unit/authenticate/provider/test_tokens.py")
tokens.without("trouble is not the end of a grant", "parse", always("answer.status < 500"))
tokens.without(
    "a token fits into a header",
    "_token",
    replaced(
        'not isinstance(value, str) or len(value) > MAX_TOKEN or not value.isascii() or not value.isprintable() or " " in value',
        "not isinstance(value, str) or len(value) > MAX_TOKEN",
    ),
)

wanted = door("authenticate.session.wanted_tokens", "unit/authenticate/session/test_wanted_tokens.py")
wanted.without("a slow provider holds up no other", "WantedRefreshes._renew", replaced("self._turns[...]", "self._turns['']"))
wanted.without(
    "a provider's refreshes that requests wait for are bounded",
    "WantedRefreshes.__init__",
    replaced("asyncio.Semaphore(at_once)", "asyncio.Semaphore(999)"),
)

page = door("authenticate.views.refresh", "unit/authenticate/views/test_refresh.py")
page.without(
    "a refresh by hand is asked for by our page",
    "refresh",
    never("not answers.is_from_our_page(request, service, session)"),
)
page.without(
    "a refresh by hand waits for the cooldown",
    "refresh",
    never("(wait := too_soon(service, session)) > 0"),
)

DOORS = (refresh, wanted, renewal, session_use, issuers, own_sessions, worker, tokens, page)
