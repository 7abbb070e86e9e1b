"""Defences of the sign-out: who may ask for it, whose sessions end, and that none is left."""

from tests.mutants.mutant import door
from tests.mutants.operations import always, lacks, never, omits, replaced, skips

logout_token = door("authenticate.provider.logout_token", "unit/authenticate/provider/test_logout_token.py")
logout_token.without("a logout token is of our issuer", "verify", never("not isinstance(named, str) or not is_issuer(issuer, named)"))
logout_token.without("one tenant's key signs nobody of another out", "verify", always("signs_for(key, issuer, named)"))
logout_token.without("a logout token's signature is asked for", "verify", skips("LOGOUT_TOKEN.check_signature(...)"))
logout_token.without("a logout token is for us", "verify", skips("LOGOUT_TOKEN.audiences(...)"))
logout_token.without("a logout token has its time", "verify", skips("LOGOUT_TOKEN.check_times(payload, now)"))
logout_token.without("a logout token is young", "verify", never("issued <= now - LONGEST"))
logout_token.without(
    "a logout token says what it is", "_check_kind", never("not isinstance(events, dict) or not isinstance(events.get(EVENT), dict)")
)
logout_token.without("what has a nonce is no logout token", "_check_kind", never('"nonce" in payload'))
logout_token.without("a logout token names somebody", "verify", never("not (subject or sid)"))
logout_token.without(
    "a logout token has an id of its own", "verify", replaced('LOGOUT_TOKEN.text(payload, "jti")', 'str(payload.get("jti", ""))')
)
logout_token.without(
    "a token is remembered for as long as it is good",
    "verify",
    replaced('LOGOUT_TOKEN.time(payload, "exp") + LEEWAY', 'LOGOUT_TOKEN.time(payload, "exp")'),
)

provider_logout = door(
    "authenticate.session.provider_logout",
    "unit/authenticate/session/test_provider_logout.py",
    "unit/authenticate/session/test_other_sessions.py",
)
provider_logout.without("a logout token is used once", "ProviderLogout.by_token", never("await self._broker.get(SPENT, spent) is not None"))
provider_logout.without("a used token is remembered", "ProviderLogout.by_token", skips("await consume_once(...)"))
provider_logout.without(
    "a sign-in under way learns of the sign-out",
    "ProviderLogout.by_token",
    skips("await self._sessions.note_sign_out(...)"),
)
provider_logout.without("what a provider forgot to name is refreshed", "ProviderLogout.by_token", skips("await self._refresh_others(...)"))
provider_logout.without("a browser names what can't be guessed", "ProviderLogout.by_browser", never("len(sid) < SHORTEST_UNGUESSABLE"))

front_channel = door("authenticate.session.provider_logout", "unit/authenticate/session/test_provider_logout.py")
front_channel.without(
    "a sign-in under way ends by the front channel too", "ProviderLogout.by_browser", skips("await self._note(issuer, sid)")
)
front_channel.without("strangers fill no store", "ProviderLogout._note", never("len(self._notes) >= MAX_NOTES"))
other_sessions = door("authenticate.session.other_sessions", "unit/authenticate/session/test_other_sessions.py")
other_sessions.without(
    "a second sign-out is not forgotten",
    "OtherSessions.refresh_soon",
    replaced("self._wanted[key] = ids", "self._wanted.setdefault(key, ids) if key not in self._pending else None"),
)
other_sessions.without("a provider that ends the others later is asked again", "OtherSessions._refresh", replaced("PAUSES", "PAUSES[:1]"))

provider_clients = door(
    "authenticate.provider.clients", "unit/authenticate/session/test_provider_logout.py", "unit/authenticate/provider/test_clients.py"
)
provider_clients.without("whose word it is the issuer says", "ProviderClients.of_issuer", always("is_issuer(provider.issuer, issuer)"))
provider_clients.without(
    "a session's tokens go to its provider alone", "ProviderClients.of_session", never("not vouches(client.provider, session)")
)

provider_sessions = door("authenticate.session.provider_sessions", "unit/authenticate/session/test_provider_sessions.py")
provider_sessions.without(
    "a sid is one person's", "ProviderSessions.session_ids", always("not subject or ProviderSession.from_record(entry).subject == subject")
)
provider_sessions.without(
    "an old word ends no new sign-in", "ProviderSessions.has_signed_out", always("vouched <= SignedOutNote.from_record(note).issued")
)
provider_sessions.without(
    "a late logout token leaves a later sign-out's note",
    "ProviderSessions.note_sign_out",
    never("known is not None and SignedOutNote.from_record(known).issued > issued"),
)
provider_sessions.without("a note replaces no note that it has not seen", "ProviderSessions.note_sign_out", omits("only_if_version"))
provider_sessions.without(
    "a shared sid is not one user's",
    "_note_key",
    replaced("index_key(issuer, sid, subject)", "index_key(issuer, sid, '' if sid else subject)"),
)

sessions = door("authenticate.session.sessions", "unit/authenticate/session/test_provider_logout.py")
sessions.without("whoever signed out meanwhile has no session", "Sessions.create", never("await self.at_provider.has_signed_out(session)"))
sessions.without(
    "a session is found by what the provider calls it", "Sessions.create", skips("await self.at_provider.remember(session, linked_id)")
)

backchannel = door("authenticate.views.provider_logout", "unit/authenticate/views/test_provider_logout.py")
backchannel.without(
    "of the provider's troubles no stranger hears", "backchannel_logout", replaced("(WrongToken, WrongTime)", "ProviderError")
)
backchannel.without("a form has one token", "backchannel_logout", replaced("len(tokens) != 1", "not tokens"))
backchannel.without("a token comes as a form", "backchannel_logout", always("request.content_type == FORM"))
backchannel.without(
    "a browser says each thing once", "frontchannel_logout", replaced("any((len(values) != 1 for values in named))", "not all(named)")
)
backchannel.without(
    "no page of others clears our cookie",
    "frontchannel_logout",
    replaced(
        'return responses.page(request, "authenticate/signed_out.html", framed_by=framed_by, everywhere=False)',
        'response = responses.page(request, "authenticate/signed_out.html", framed_by=framed_by, everywhere=False)\nreturn responses.with_cookies(response, service.sessions.clear_cookies([], service.host_port, request.path))',
    ),
)

post_logout_redirect = door("authenticate.post_logout_redirect", "unit/authenticate/test_post_logout_redirect.py")
post_logout_redirect.without(
    "sign-out leads to hosts of ours",
    "PostLogoutRedirect.url",
    replaced("target.short(MAX_URL) if target is not None else self._default", "wanted or self._default"),
)
post_logout_redirect.without(
    "our own page does not redirect to itself", "PostLogoutRedirect.url_of", replaced('"" if url == self._own_page else url', "url")
)
post_logout_redirect.without(
    "what is no longer ours is not gone to", "PostLogoutRedirect.url_of", replaced("self.url(wanted, is_route_origin)", "wanted")
)

provider_client = door(
    "authenticate.provider.client", "unit/authenticate/provider/test_client.py", "unit/authenticate/views/test_sign_out.py"
)
provider_client.without(
    "a long token stays out of URLs", "ProviderClient.end_session_url", always("0 < len(session.id_token) <= LONGEST_HINT")
)
provider_client.without(
    "a silent provider keeps nobody signed in",
    "ProviderClient.end_session_url",
    replaced("asyncio.timeout(timeout)", "asyncio.timeout(None)"),
)

oidc_provider = door(
    "authenticate.provider.kinds.oidc", "unit/authenticate/provider/test_client.py", "unit/authenticate/provider/kinds/test_oidc.py"
)
addresses = door("authenticate.provider.kinds.base", "unit/authenticate/provider/kinds/test_oidc.py")
addresses.without("email_verified is about email", "is_verified", replaced('claims.get("mail")', "False"))
oidc_provider.without("the access token is revoked, too", "OIDCProvider.revocable_tokens", lacks('(session.access_token, "access_token")'))

keycloak = door("authenticate.provider.kinds.keycloak", "unit/authenticate/provider/kinds/test_keycloak.py")
keycloak.without(
    "a sign-out leaves the other browsers at Keycloak",
    "KeycloakProvider.revocable_tokens",
    replaced('((session.access_token, "access_token"),)', "super().revocable_tokens(session)"),
)
keycloak.without("nothing outlives its sign-out", "KeycloakProvider", skips("default_scopes = ..."))
google = door("authenticate.provider.kinds.google", "unit/authenticate/provider/kinds/test_generic.py")
google.without(
    "a sign-out leaves the other browsers at Google", "GoogleProvider.revocable_tokens", replaced("()", "super().revocable_tokens(session)")
)

DOORS = (
    keycloak,
    google,
    post_logout_redirect,
    provider_client,
    provider_clients,
    oidc_provider,
    addresses,
    logout_token,
    provider_logout,
    other_sessions,
    front_channel,
    provider_sessions,
    sessions,
    backchannel,
)
