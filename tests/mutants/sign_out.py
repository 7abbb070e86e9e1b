"""Defences of the sign-out: who may ask for it, whose sessions end, and that none is left."""

from tests.mutants.mutant import door

logout_token = door("authenticate/provider/logout_token.py", "unit/authenticate/provider/test_logout_token.py")
logout_token.without("a logout token is of our issuer", "if not isinstance(named, str) or not is_issuer(issuer, named):", "if False:")
logout_token.without("one tenant's key signs nobody of another out", "if signs_for(key, issuer, named)", "")
logout_token.without(
    "a logout token's signature is asked for", '    LOGOUT_TOKEN.check_signature(token, usable, algorithm, header.get("kid"))\n', ""
)
logout_token.without("a logout token is for us", "    LOGOUT_TOKEN.audiences(payload, client_id)\n", "")
logout_token.without("a logout token has its time", "    LOGOUT_TOKEN.check_times(payload, now)\n", "")
logout_token.without("a logout token is young", "if issued <= now - LONGEST:", "if False:")
logout_token.without(
    "a logout token says what it is", "if not isinstance(events, dict) or not isinstance(events.get(EVENT), dict):", "if False:"
)
logout_token.without("what has a nonce is no logout token", 'if "nonce" in payload:', "if False:")
logout_token.without("a logout token names somebody", "if not (subject or sid):", "if False:")
logout_token.without("a logout token has an id of its own", 'LOGOUT_TOKEN.text(payload, "jti")', 'str(payload.get("jti", ""))')
logout_token.without("a token is remembered for as long as it is good", '"exp") + LEEWAY', '"exp")')

provider_logout = door("authenticate/session/provider_logout.py", "unit/authenticate/session/test_provider_logout.py")
provider_logout.without("a logout token is used once", "if await self._broker.get(SPENT, spent) is not None:", "if False:")
provider_logout.without("a used token is remembered", "        await self._broker.spend(spent, signed_out.expires)\n", "")
provider_logout.without(
    "a sign-in under way learns of the sign-out",
    "        await self._sessions.note_sign_out(signed_out.issuer, **whom, issued=signed_out.issued, now=self._clock())\n",
    "",
)
provider_logout.without("a browser names our provider", " or not is_issuer(discovery.issuer, issuer):", ":")
provider_logout.without("a browser names what can't be guessed", "if len(sid) < SHORTEST_UNGUESSABLE:", "if False:")

provider_sessions = door("authenticate/session/provider_sessions.py", "unit/authenticate/session/test_provider_sessions.py")
provider_sessions.without("the sessions of others stay", "if not record.id.startswith(prefix):", "if False:")
provider_sessions.without("a sid is one person's", "if not subject or ProviderSession.from_record(record).subject == subject:", "if True:")
provider_sessions.without("an old word ends no new sign-in", "if vouched <= note.issued and", "if")

sessions = door("authenticate/session/sessions.py", "unit/authenticate/session/test_provider_logout.py")
sessions.without("whoever signed out meanwhile has no session", "if await self.at_provider.has_signed_out(session):", "if False:")
sessions.without("a session is found by what the provider calls it", "        await self.at_provider.remember(session)\n", "")

backchannel = door("authenticate/views/provider_logout.py", "unit/authenticate/views/test_provider_logout.py")
backchannel.without(
    "of the provider's troubles no stranger hears", "    except (WrongToken, WrongTime) as error:\n", "    except ProviderError as error:\n"
)
backchannel.without("a form has one token", "if len(tokens) != 1:", "if not tokens:")
backchannel.without("a token comes as a form", " if request.content_type == FORM else []", "")
backchannel.without("a browser says each thing once", "if any(len(values) != 1 for values in named):", "if not all(named):")
backchannel.without(
    "no page of others clears our cookie",
    'return responses.page("authenticate/signed_out.html", framed_by=framed_by, everywhere=False)',
    'response = responses.page("authenticate/signed_out.html", framed_by=framed_by, everywhere=False)\n'
    "    return responses.with_cookies(response, service.sessions.clear_cookies([], service.host_port, request.path))",
)

post_logout_redirect = door("authenticate/post_logout_redirect.py", "unit/authenticate/test_post_logout_redirect.py")
post_logout_redirect.without(
    "sign-out leads to hosts of ours",
    "return target.short(MAX_URL) if target is not None else self._default",
    "return wanted or self._default",
)
post_logout_redirect.without("what is no longer ours is not gone to", "return self.url(wanted, is_route_origin)", "return wanted")

provider_client = door(
    "authenticate/provider/client.py", "unit/authenticate/provider/test_client.py", "unit/authenticate/views/test_sign_out.py"
)
provider_client.without("a long token stays out of URLs", " if 0 < len(session.id_token) <= LONGEST_HINT else {}", "")
provider_client.without(
    "a silent provider keeps nobody signed in", "async with asyncio.timeout(timeout):", "async with asyncio.timeout(None):"
)

oidc_provider = door("authenticate/providers/oidc.py", "unit/authenticate/provider/test_client.py")
oidc_provider.without("the access token is revoked, too", ', (session.access_token, "access_token")', "")

keycloak = door("authenticate/providers/keycloak.py", "unit/authenticate/providers/test_keycloak.py")
keycloak.without(
    "a sign-out leaves the other browsers at Keycloak",
    'return ((session.access_token, "access_token"),)',
    "return super().revocable_tokens(session)",
)
keycloak.without("nothing outlives its sign-out", '    default_scopes = ("openid", "profile", "email")\n', "")
google = door("authenticate/providers/google.py", "unit/authenticate/providers/test_generic.py")
google.without(
    "a sign-out leaves the other browsers at Google", "        return ()\n", "        return super().revocable_tokens(session)\n"
)

DOORS = (
    keycloak,
    google,
    post_logout_redirect,
    provider_client,
    oidc_provider,
    logout_token,
    provider_logout,
    provider_sessions,
    sessions,
    backchannel,
)
