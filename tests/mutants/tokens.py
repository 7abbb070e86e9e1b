"""Defences of tokens: who agreed, where they go, at which host they count, and what passes for one."""

from tests.mutants.mutant import door

programs = door("proxy/sign_in/programs.py", "unit/proxy/sign_in/test_programs.py")
programs.without("no token goes over the net in the clear", 'if match["scheme"].lower() == "http" and not is_local:', "if False:")
programs.without("a token goes to listed hosts only", "host in self._hosts or (is_local and LOCALHOST in self._hosts)", "True")
programs.without("this machine must be listed, too", "(is_local and LOCALHOST in self._hosts)", "is_local")
programs.without("a program finds one token", " or _names_a_token(url):", ":")
programs.without("a loopback address is one", "address.is_loopback", "address.is_private")

program_views = door("proxy/sign_in/program_views.py", "unit/proxy/sign_in/test_program_views.py")
program_views.without("a link gives one token", 'if not await own.broker.spend(f"program/{hand_over.id}", hand_over.expires):', "if False:")
program_views.without(
    "an ended session gives no token",
    '        return _refused(request, "The session that this sign-in is for has ended.")\n',
    '        session = type("Ended", (), {"id": hand_over.session_id, "user_id": "", "expires": now + 60})\n',
)
program_views.without("one redirect URI is one", "if len(given) == 1 else None", "if given else None")
program_views.without(
    "where a token goes is judged before it goes",
    "redirect_uri = own.proxy.programs.redirect_uri(hand_over.redirect_uri)",
    "redirect_uri = hand_over.redirect_uri",
)

program = door("authenticate/views/program.py", "unit/authenticate/views/test_program.py")
program.without(
    "a program's sign-in is as strong as its route asks",
    "if session is None or asked.shortfall(session.claims, session.issued, now):",
    "if session is None:",
)
program.without(
    "only our page agrees", 'if request.method == "POST" and _is_proven(request, service, session):', 'if request.method == "POST":'
)
program.without(
    "an answer is the signed-in person's", "service.clock(), bound_to=session.id)\n\n\ndef _agreed", "service.clock())\n\n\ndef _agreed"
)
program.without(
    "a token goes by way of a route's callback", "if callback is None or callback.rest != CALLBACK_PATH:", "if callback is None:"
)

sealed = door("foundation/crypto/program_tokens.py", "unit/foundation/crypto/test_program_tokens.py")
sealed.without("a hand-over to a program is none to a browser", '"programmatic hand-over"', '"hand-over"')
carriers = door("authorize/identity/credentials.py", "unit/authorize/identity/test_credentials.py")
carriers.without("two headers carry nothing", "if len(given) != 1:", "if not given:")
carriers.without("two tokens in a query are none", "values[0] if len(values) == 1 else", "values[0] if values else")
carriers.without("no link chooses who its visitor is", " or _is_browser(request):", ":")
carriers.without(
    "a browser is known by what it tells of its fetch", "        name.startswith(_OF_BROWSERS)\n        or (name", "        (name"
)
carriers.without("a browser is known by the page it wants", 'b"text/html" in value.lower()', "False")
carriers.without("a browser is known by its name", "value.strip().lower().startswith(_BROWSERS_CALL_THEMSELVES)", "False")

service = door("authorize/service.py", "unit/authorize/test_service.py")
service.without(
    "who is signed in stays who they are",
    "        for audience in self.audiences(request):\n            if (identity :=",
    "        named = await self._of_token(request, now, route)\n"
    '        if named is not None and not isinstance(named, RefusedToken):\n            return named, ""\n'
    "        for audience in self.audiences(request):\n            if (identity :=",
)

elsewhere = door("proxy/verdict.py", "unit/proxy/test_verdict.py")
elsewhere.without("no application reads a token in a query", "        if without_token(raw) != raw:\n", "        if False:\n")

sign_in = door("proxy/sign_in/redirects.py", "unit/proxy/sign_in/test_redirects.py")
sign_in.without("no token is part of where to return", 'without_token(request.query.encode("latin-1")).decode("latin-1")', "request.query")

account_token = door("foundation/crypto/service_account_token.py", "unit/foundation/crypto/test_service_account_token.py")
account_token.without(
    "a mistyped secret asks nobody", "hmac.compare_digest(_checksum(token[:-CHECKSUM_CHARACTERS]), token[-CHECKSUM_CHARACTERS:])", "True"
)
account_token.without(
    "a secret is compared", "return bool(kept_hash) and hmac.compare_digest(hash_of(token), kept_hash)", "return bool(kept_hash)"
)
account_token.without("no hash, no secret", "return bool(kept_hash) and hmac", "return not kept_hash or hmac")
account_token.without("a token is whole", "_TOKEN.fullmatch(token)", "_TOKEN.match(token)")

account_loader = door("authorize/identity/service_accounts.py", "unit/authorize/identity/test_service_accounts.py")
account_loader.without("the secret is compared at each use", "if not _is_its_secret(token, known.account, now):", "if False:")
account_loader.without("a changed record counts at once", " or not self._is_current(name, known):", ":")
account_loader.without("another server's account is another", "return known.life == self._replica.life and ", "return ")
account_loader.without(
    "the old secret ends",
    "(now < account.old_secret_until and is_secret(token, account.old_secret_hash))",
    "is_secret(token, account.old_secret_hash)",
)
account_loader.without("an account ends", "if account.name != name or now >= identity.expires:", "if account.name != name:")
account_loader.without(
    "a record is its own account's", "if account.name != name or now >= identity.expires:", "if now >= identity.expires:"
)
account_identity = door("authorize/identity/account_identity.py", "unit/authorize/identity/test_service_accounts.py")
account_identity.without(
    "an attestation is of the last hour", "min(float(account.expires), now + IDENTITY_SECONDS)", "float(account.expires)"
)

accounts = door("databroker/service_accounts.py", "unit/databroker/test_service_accounts.py")
accounts.without("a name is taken once", ", only_if_version=0)", ")")
accounts.without("names have one spelling", "if not NAME.fullmatch(name):", "if False:")
accounts.without(
    "the old secret ends with the new one",
    'old_secret_hash=account.secret_hash if overlap > 0 else "",',
    "old_secret_hash=account.secret_hash,",
)

identity = door("authorize/policy/identity.py", "unit/authorize/identity/test_account_identity.py", "contract/test_user_entries.py")
identity.without(
    "only people of the configured provider have a subject",
    "self.subject if self.provider in PROVIDERS else",
    "self.subject if self.provider else",
)

account_service = door("authorize/identity/credentials.py", "unit/authorize/test_service.py")
account_service.without(
    "a program with a bad secret is not sent to sign in",
    'return BAD_TOKEN if is_service_account(scheme, token) or (takes_bearers and scheme == "bearer") else ""',
    'return ""',
)

bearer_tokens = door("authenticate/bearer_tokens.py", "unit/authenticate/test_bearer_tokens.py")
bearer_tokens.without(
    "userinfo does not say whose people they are",
    "self._provider.provider.issuer if trust.audience == (ANY_CLIENT,) else issuer_in(claims)",
    "issuer_in(claims)",
)
bearer_tokens.without("a bearer's token is of the issuer", 'if payload.get("iss") != issuer:', "if False:")
bearer_tokens.without(
    "a bearer's token is for the audience",
    "if not isinstance(audiences, list) or not any(isinstance(name, str) and name in trust.audience for name in audiences):",
    "if not isinstance(audiences, list):",
)
bearer_tokens.without(
    "a flood puts off no judgement of what was good", "is_stranger, network = key not in self._good,", "is_stranger, network = True,"
)
bearer_tokens.without(
    "made-up tokens push out no good one",
    "kept, other = (self._refused, self._good) if isinstance(verdict.bearer, RefusedToken) else (self._good, self._refused)",
    "kept, other = self._good, self._refused",
)
bearer_tokens.without("a bearer's token ends", "    kind.check_times(payload, now)\n", "")
bearer_tokens.without("a bearer's token names somebody", '    kind.text(payload, "sub")\n', '    payload.setdefault("sub", "")\n')
bearer_tokens.without("a logout token lets nobody in", "    if OF_LOGOUT_TOKENS in payload:\n", "    if False:\n")
bearer_tokens.without("an ID token is no access token", 'and (has_nonce or says == "ID" or not has_scope):', "and not has_scope:")
bearer_tokens.without(
    "what nothing says is no access token", 'and (has_nonce or says == "ID" or not has_scope):', 'and (has_nonce or says == "ID"):'
)
bearer_tokens.without(
    "an access token is no ID token", 'if has_scope or says not in (None, "ID", "JWT"):', 'if says not in (None, "ID", "JWT"):'
)
bearer_tokens.without("Keycloak's other tokens are no ID tokens", 'if has_scope or says not in (None, "ID", "JWT"):', "if has_scope:")
bearer_tokens.without(
    "a bearer's ID token was issued to us",
    'if payload.get("azp", trust.audience[0] if len(audiences) == 1 else None) != trust.audience[0]:',
    "if False:",
)
bearer_tokens.without(
    "a bearer's signature is checked",
    '            kind.check_signature(token, tuple(key for key in known if signs_for(key, issuer, named)), algorithm, header.get("kid"))\n',
    "            pass\n",
)
bearer_tokens.without("discovery is the issuer's own", 'if document.get("issuer") != self._trust.issuer or', "if")
bearer_tokens.without("keys come over TLS", " or not is_safe(uri):", ":")
bearer_tokens.without(
    "an address of another issuer is a claim",
    'UserRecord(user_id, "", is_verified',
    'UserRecord(user_id, str(claims.get("email", "")), is_verified',
)
bearer_tokens.without("an address counts where the issuer says so", '{"email_verified": False, **claims}', "claims")
bearer_tokens.without("made-up tokens are bounded at the provider", " and not self._strangers.take(network):", " and False:")
bearer_tokens.without("what tokens claim is bounded in bytes", "kept.put(key, verdict, weight_of(verdict))", "kept.put(key, verdict, 1)")
bearer_tokens.without("a refusal is remembered", "self._clock() + REFUSED_KEPT", "self._clock()")
bearer_tokens.without(
    "verdicts are bounded",
    "BoundedCache(MOST_KEPT, MOST_BYTES)\n        self._refused",
    "BoundedCache(10**9, MOST_BYTES)\n        self._refused",
)
bearer_tokens.without(
    "a route takes its own kind", "key = (trust, hashlib.sha256", "key = (next(iter(self._trusts.values())), hashlib.sha256"
)

userinfo = door("authenticate/providers/oidc.py", "unit/authenticate/test_bearer_tokens.py")
userinfo.without(
    "a token that userinfo calls bad is bad", 'if answer.status == 401 or error == "invalid_token":', "if answer.status == 401:"
)
userinfo.without("a 403 alone says nothing of a token", 'if error == "insufficient_scope":', "if answer.status == 403:")

bearers = door("authorize/service.py", "unit/authorize/identity/test_bearer_port.py")
bearers.without("a route without the key asks nobody", "route is not None and route.bearer_token is not None:", "route is not None:")
bearers.without("a token that has ended is nobody", "        if now >= bearer.session.expires:\n", "        if False:\n")

bearer_settings = door("config/routes/bearer_tokens.py", "unit/config/routes/test_bearer_tokens.py")
bearer_settings.without("a public issuer lets in whom the policy names", "    if route.allow_any_authenticated_user:\n", "    if False:\n")
bearer_settings.without("who somebody is must be said with an issuer", "if name in OF_OUR_PEOPLE or name == groups_claim:", "if False:")
bearer_settings.without("the audience is never left out", "if kind == ACCESS_TOKEN and not route.bearer_token_audience:", "if False:")
bearer_settings.without("an issuer is reached by TLS", " or not is_confidential(parsed.scheme, parsed.host):", ":")
bearer_settings.without("keys are fetched by TLS", "if not is_confidential(url.scheme, url.host):", "if False:")

bearer_challenge = door("authorize/identity/credentials.py", "unit/authorize/identity/test_bearer_port.py")
bearer_challenge.without("a bearer with a bad token is not sent to sign in", ' or (takes_bearers and scheme == "bearer")', "")

bearer_headers = door(
    "proxy/rewriting/headers.py", "unit/proxy/rewriting/test_headers.py::test_a_credential_that_was_for_us_goes_no_further"
)
bearer_headers.without(
    "an upstream sees no bearer's token",
    "WithheldCredentials.AUTHORIZATION: (DROP, AUTHORIZATION),",
    "WithheldCredentials.AUTHORIZATION: (DROP,),",
)
bearer_headers.without(
    "no credential goes with a preflight", "WithheldCredentials.ALL: (DROP, AUTHORIZATION, COOKIE),", "WithheldCredentials.ALL: (DROP,),"
)
bearer_headers.without(
    "another proxy's upstream sees what ours would", "self._cleaned(given, _WITHHELD[withheld])", "self._cleaned(given, (DROP,))"
)

CARRIED = "contract/test_verdict_matrix.py"
carried = door("proxy/state.py", CARRIED)
carried.without(
    "what is sent on is cut as it was judged", "sent_host, told, carry.withheld)", "sent_host, told, type(carry.withheld).OURS)"
)
carried.without(
    "a token for gate is none for an upstream that changes protocols",
    "carry.offer.for_upstream(headers),",
    'carry.offer.for_upstream([*headers, *(pair for pair in scope["headers"] if pair[0] == b"authorization")]),',
)

ALIKE = "contract/test_refusals_alike.py"
challenges = door("foundation/challenges.py", "unit/foundation/test_challenges.py")
challenges.without("every 401 says how to prove who one is", '401: (b"www-authenticate", NOBODY.encode()), ', "")
challenges.without("every 503 says when to come back", ', 503: (b"retry-after", str(RETRY_AFTER).encode())', "")
own_answers = door("proxy/answers/send.py", "unit/proxy/answers/test_send.py")
own_answers.without(
    "an answer of ours says what its status owes", "[*headers, *missing_headers(status, [name for name, _ in headers]), ", "[*headers, "
)
own_answers.without("an answer to gRPC says it, too", "        *missing_headers(status, [name for name, _ in extra_headers]),\n", "")
own_pages = door("gateproject/middleware.py", "unit/gateproject/test_middleware.py")
own_pages.without("a page of ours says what its status owes", "in missing_headers(response.status_code, ", "in missing_headers(200, ")
told_alike = door("proxy/verdict.py", ALIKE)
told_alike.without(
    "other proxies hear of trouble what our own clients do",
    "if asker is Asker.OURS or not isinstance(error, BadRequest):",
    "if asker is Asker.OURS:",
)
told = door("proxy/observe/access_log.py", ALIKE)
told.without("a refused token is explained in the line of its request", "            if check.refused_token:\n", "            if False:\n")
kept = door("authorize/decisions/log.py", "unit/authorize/decisions/test_log.py")
kept.without("a refused token is kept whatever the sample rate", "if decision is None or refused_token or", "if decision is None or")

waiting = door("gateproject/tunnel/sign_in.py", "unit/gateproject/tunnel/test_sign_in.py")
waiting.without(
    "another user of the machine brings no token",
    "if token and self._uid != ROOT and is_of_another_user(",
    "if False and is_of_another_user(",
)

peer = door("gateproject/tunnel/socket_owner.py", "unit/gateproject/tunnel/test_socket_owner.py")
peer.without("who has left is nobody", " and columns[3] == _ESTABLISHED", "")
peer.without("a socket for IPv6 has an owner, too", "for is_mapped in (False, True)", "for is_mapped in (False,)")

DOORS = (
    programs, program_views, program, sealed, carriers, service, elsewhere, sign_in, account_token, account_loader, account_identity,
    accounts, identity,
    account_service,
    bearer_tokens, userinfo,
    bearers,
    bearer_settings,
    bearer_headers, bearer_challenge, carried,
    challenges, own_answers, own_pages, told_alike, told, kept,
    waiting, peer,
)  # fmt: skip
