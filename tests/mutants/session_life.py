"""Defences of a session's life: one renewal at a time, about the same person, and what has ended stays ended."""

from tests.mutants.mutant import door

refresh = door("authenticate/session_refresh.py", "unit/authenticate/test_session_refresh.py")
refresh.without(
    "a session has one renewal anywhere",
    "        if lease is None:\n            raise UnderWay\n",
    "        if lease is None:\n            yield\n            return\n",
)
refresh.without("a delete wins over a refresh", ", only_if_version=record.version)", ")")
refresh.without("new tokens are not lost", "                if now() + wait >= ends:\n", "                if True:\n")
refresh.without("what came too late is revoked", "            await self._client.revoke(renewed)\n", "")
refresh.without("another process's refresh is not repeated", "tokens_due(session) <= now", "True")
refresh.without(
    "a provider that refuses ends the session",
    "                await self.end(session, str(error))\n                raise Ended(str(error)) from error\n\n",
    "                raise Ended(str(error)) from error\n\n",
)

renewal = door("authenticate/renewal.py", "unit/authenticate/test_renewal.py")
renewal.without(
    "a refreshed ID token is about the same person",
    'if (refreshed["iss"], refreshed["sub"]) != (payload.get("iss"), payload.get("sub")):',
    "if False:",
)
renewal.without("a renewed person is the same person", "if user.id != session.user_id:", "if False:")
renewal.without(
    "a token goes to no other provider",
    "if session.provider != client.provider.name or not is_issuer(discovery.issuer, issuer):",
    "if False:",
)

worker = door("authenticate/refresh_worker.py", "unit/authenticate/test_refresh_worker.py")
worker.without("an expired session ends in trouble", "if now >= ends and isinstance(error, ProviderError):", "if False:")
worker.without(
    "the provider is tried for a minute first",
    "max(session.access_token_expires or NEVER, trouble.since + PATIENCE)",
    "(session.access_token_expires or NEVER)",
)

tokens = door("authenticate/tokens.py", "unit/authenticate/test_tokens.py")
tokens.without("trouble is not the end of a grant", " and answer.status < 500:", ":")
tokens.without("a token fits into a header", ' or not value.isascii() or not value.isprintable() or " " in value:', ":")

page = door("authenticate/views/refresh.py", "unit/authenticate/views/test_refresh.py")
page.without(
    "a refresh by hand is asked for by our page",
    "if not service.csrf.check(token, headers, service.clock(), bound_to=session.id):",
    "if False:",
)
page.without(
    "a refresh by hand waits for the cooldown",
    "if (wait := too_soon(service, session)) > 0:",
    "if (wait := too_soon(service, session)) > 1e9:",
)

DOORS = (refresh, renewal, worker, tokens, page)
