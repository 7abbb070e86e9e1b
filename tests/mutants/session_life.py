"""Defences of a session's life: one renewal at a time, about the same person, and what has ended stays ended."""

from tests.mutants.mutant import door

refresh = door("authenticate/session/refresh.py", "unit/authenticate/session/test_refresh.py")
refresh.without(
    "a session has one renewal anywhere",
    "        if lease is None:\n            raise RefreshUnderWay\n",
    "        if lease is None:\n            yield\n            return\n",
)
refresh.without("a delete wins over a refresh", ", only_if_version=record.version)", ")")
refresh.without("new tokens are not lost", "                if now() + wait >= ends:\n", "                if True:\n")
refresh.without("what came too late is revoked", "            await self._client.revoke(renewed)\n", "")
refresh.without("another process's refresh is not repeated", "tokens_due(session) <= now", "True")
refresh.without(
    "a provider that refuses ends the session",
    "            except GrantRefused as error:\n                raise await self._ended(session, REFUSED, error) from error\n",
    "            except GrantRefused as error:\n                raise Ended from error\n",
)
refresh.without("a wrong answer ends the session", "except (AnotherPerson, WrongToken) as error:", "except AnotherPerson as error:")

renewal = door("authenticate/session/renewal.py", "unit/authenticate/session/test_renewal.py")
renewal.without(
    "a refreshed ID token is about the same person",
    'if (refreshed["iss"], refreshed["sub"]) != (before.get("iss"), before.get("sub")):',
    "if False:",
)
renewal.without("what userinfo no longer tells is gone", "() if newer else session.userinfo_claims", "()")
renewal.without("a token that is not of now says nothing", "    except WrongTime as error:", "    except ZeroDivisionError as error:")
renewal.without("a renewed person is the same person", "if user.id != session.user_id:", "if False:")
renewal.without(
    "a token goes to no other provider",
    "if not vouches(client.provider.name, client.provider.issuer, session):",
    "if False:",
)

session_use = door("databroker/session_reader.py", "unit/databroker/test_session_reader.py", "unit/authorize/identity/test_loader.py")
session_use.without("a session is of the configured issuer", "if not vouches(self._provider, self._issuer, session):", "if False:")
session_use.without("a session is of the configured provider", "session.provider == provider and is_issuer", "is_issuer")
session_use.without("whose name alone says little", " and is_issuer(issuer, session.vouched_by)", "")
session_use.without("two people of one id are two", " and user.vouched_by == session.vouched_by", "")
session_use.without("whom another issuer's directory names is another person", " and counts_for(person.issuer, session.vouched_by)", "")
session_use.without("two groups of one id are two", " and counts_for(group.issuer, session.vouched_by)", "")
issuers = door("config/issuers.py", "unit/config/test_issuers.py")
issuers.without(
    "a tenant says nothing of its whole host",
    "said_by == issuer or is_issuer(said_by, issuer)",
    "said_by == issuer or is_issuer(issuer, said_by)",
)
own_sessions = door("authenticate/session/sessions.py", "unit/authenticate/session/test_sessions.py")
own_sessions.without("a session knows its issuer", "            issuer=signed_in.user.issuer,\n", "")

worker = door("authenticate/session/refresh_worker.py", "unit/authenticate/session/test_refresh_worker.py")
worker.without("an expired session ends in trouble", "if now >= ends and isinstance(error, ProviderError):", "if False:")
worker.without(
    "the provider is tried for a minute first",
    "max(session.access_token_expires or NEVER, failure.since + GRACE)",
    "(session.access_token_expires or NEVER)",
)

tokens = door("authenticate/provider/tokens.py", "unit/authenticate/provider/test_tokens.py")
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

DOORS = (refresh, renewal, session_use, issuers, own_sessions, worker, tokens, page)
