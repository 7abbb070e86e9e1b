"""Defences of the sign-out: who may ask for it, whose sessions end, and that none is left."""

from tests.mutants.mutant import door
from tests.mutants.operations import always, lacks, replaced

logout_token = door("authenticate.provider.tokens.logout_token", "unit/authenticate/provider/tokens/test_logout_token.py")
logout_token.without(
    "a logout token has an id", "verify", replaced('LOGOUT_TOKEN.string_claim(payload, "jti")', 'str(payload.get("jti", ""))')
)
logout_token.without(
    "a token is remembered for as long as it is good",
    "verify",
    replaced('LOGOUT_TOKEN.time_claim(payload, "exp") + LEEWAY', 'LOGOUT_TOKEN.time(payload, "exp")'),
)

other_sessions = door("authenticate.session.other_session_refresh", "unit/authenticate/session/test_other_session_refresh.py")
other_sessions.without(
    "a second sign-out is not forgotten",
    "OtherSessionRefresh.refresh_soon",
    replaced("self._requested[key] = ids", "self._requested.setdefault(key, ids) if key not in self._pending else None"),
)
other_sessions.without(
    "a provider that ends the others later is asked again", "OtherSessionRefresh._refresh", replaced("DELAYS", "DELAYS[:1]")
)

provider_sessions = door("authenticate.session.session_index", "unit/authenticate/session/test_session_index.py")
provider_sessions.without(
    "an old word ends no new sign-in", "SessionIndex.is_logged_out", always("issued_at <= LogoutMarker.from_record(marker).issued_at")
)
provider_sessions.without(
    "a shared sid is not one user's",
    "_marker_key",
    replaced("index_key(issuer, sid, subject)", "index_key(issuer, sid, '' if sid else subject)"),
)

backchannel = door("authenticate.views.provider_logout_endpoints", "unit/authenticate/views/test_provider_logout_endpoints.py")
backchannel.without(
    "a provider's failure is not disclosed", "backchannel_logout", replaced("(InvalidSignedToken, TokenNotCurrent)", "ProviderError")
)
backchannel.without("a form has one token", "backchannel_logout", replaced("len(tokens) != 1", "not tokens"))
backchannel.without(
    "a browser says each thing once", "frontchannel_logout", replaced("any((len(values) != 1 for values in named))", "not all(named)")
)
backchannel.without(
    "no page of others clears our cookie",
    "frontchannel_logout",
    replaced(
        'return responses.render_page(request, "authenticate/signed_out.html", framed_by=framed_by, everywhere=False)',
        'response = responses.render_page(request, "authenticate/signed_out.html", framed_by=framed_by, everywhere=False)\nreturn responses.with_cookies(response, service.sessions.clear_cookies([], service.host_port, request.path))',
    ),
)

post_logout_redirect = door("authenticate.post_logout_redirect", "unit/authenticate/test_post_logout_redirect.py")
post_logout_redirect.without(
    "sign-out leads to hosts of gate",
    "PostLogoutRedirect.resolve",
    replaced("target.truncated(MAX_URL) if target is not None else self._default", "requested or self._default"),
)
post_logout_redirect.without(
    "a removed host is not a target", "PostLogoutRedirect.resolve_state", replaced("self.resolve(requested, is_route_origin)", "requested")
)

provider_client = door(
    "authenticate.provider.provider_client",
    "unit/authenticate/provider/test_provider_client.py",
    "unit/authenticate/views/test_sign_out.py",
)
provider_client.without(
    "a silent provider keeps no user signed in",
    "ProviderClient.end_session_url",
    replaced("asyncio.timeout(timeout)", "asyncio.timeout(None)"),
)

oidc_provider = door(
    "authenticate.provider.kinds.oidc_provider",
    "unit/authenticate/provider/test_provider_client.py",
    "unit/authenticate/provider/kinds/test_oidc_provider.py",
)
oidc_provider.without("the access token is revoked, too", "OIDCProvider.revocable_tokens", lacks('(session.access_token, "access_token")'))

keycloak = door("authenticate.provider.kinds.generic_provider", "unit/authenticate/provider/kinds/test_generic_provider.py")
keycloak.without(
    "a sign-out leaves the other browsers at Keycloak",
    "GenericProvider.revocable_tokens",
    replaced("is_keycloak(discovery)", "False"),
)
keycloak.without("nothing outlives its sign-out", "GenericProvider.requested_scopes", replaced("KEYCLOAK_SCOPES", "self.default_scopes"))
google = door("authenticate.provider.kinds.google_provider", "unit/authenticate/provider/kinds/test_generic_provider.py")
google.without(
    "a sign-out leaves the other browsers at Google",
    "GoogleProvider.revocable_tokens",
    replaced("()", "super().revocable_tokens(session, discovery)"),
)
