"""Defences of what travels through a browser: sealed for one purpose and one receiver, signed, and not for ever."""

from tests.mutants.mutant import door
from tests.mutants.operations import in_text, lacks, omits, passes, replaced, returns

sealing = door("foundation.crypto.sealing", "unit/foundation/crypto/test_sealing.py")
sealing.without("each purpose has its key", "derive_key", passes(info='b"gate/1/"'))
sealing.without("a claim that is not there is a refusal", "Sealer.open", replaced("Claims(claims)", "dict(claims)"))

session_cookie = door("foundation.crypto.session_cookie", "unit/foundation/crypto/test_session_cookie.py")
session_cookie.without("a cookie of one host is none at another", "SessionCookies.audience", replaced('f"host:{host_port}"', '"host"'))
session_cookie.without("a domain covers its own hosts only", "SessionCookies.covers", replaced('"." + self._domain', "self._domain"))
session_cookie.without("a cookie covers its own domain only", "SessionCookies.audience", replaced("self.covers(host_port)", "self._domain"))
session_cookie.without(
    "a cookie that was opened is its own host's",
    "SessionCookies._open_cached",
    replaced(
        "opened = ...",
        "opened = next((opened for (known, _), opened in self._opened.items() if known == value), None)\nif opened is not None:\n    self._opened[value, host_port] = opened",
    ),
)
session_cookie.without(
    "what is remembered of a browser is its host's",
    "SessionCookies.valid_sessions",
    replaced("(tuple(cookie_headers), host_port)", '(tuple(cookie_headers), "a")'),
)

session_cookie.without("a binding cookie is one session's", "SessionCookies._binding_values", lacks("session_id"))
session_cookie.without("a binding cookie is one host's", "SessionCookies._binding_values", lacks("host_port"))
session_cookie.without(
    "a binding cookie is made under a derived key",
    "SessionCookies._binding_values",
    replaced('hmac.digest(key, bound, "sha256")', 'hmac.digest(b"known", bound, "sha256")'),
)
session_cookie.without("a binding cookie has its session's end", "SessionCookies._binding_cookie", passes(max_age="9"))
session_cookie.without("two live sessions are none", "SessionCookies.find_only_session", replaced("len(found) == 1", "found"))
session_cookie.without(
    "a planted value hides no session", "SessionCookies._open_all", replaced("suppress(SealError)", "suppress(ZeroDivisionError)")
)
session_cookie.without("who brings several loses all of them", "SessionCookies.clear_conflicting", replaced("2", "9"))

prefix = door(
    "foundation.crypto.cookies",
    "unit/foundation/crypto/test_cookies.py",
    "unit/foundation/crypto/test_session_cookie.py",
)
prefix.without("no other host sets a cookie of this host", "host_prefixed_name", replaced("HOST_PREFIX + name", "name"))
prefix.without("a planted cookie is cleared where it is", "expire_all_paths", lacks("*_parent_domains(host_port)"))

admin_cookies = door("gateproject.settings", "unit/gateproject/test_settings.py")
admin_cookies.without("no other host plants an admin's session", "cookie_settings", passes(secure="False"))

attempts = door("foundation.crypto.sign_in_attempts", "unit/foundation/crypto/test_sign_in_attempts.py")
attempts.without("no other host plants a sign-in attempt", "SignInAttempts.__init__", passes(secure="False"))
attempts.without("an attempt belongs to its host", "SignInAttempts._audience", returns("attempt_id"))
attempts.without("an attempt answers to its own id", "SignInAttempts._audience", returns("host_port"))
attempts.without(
    "the two kinds of attempts are never interchanged",
    "SignInAttempts.__init__",
    replaced('f"sign-in attempt/{purpose}"', '"sign-in attempt"'),
)

handoff = door("foundation.crypto.handoff", "unit/foundation/crypto/test_handoff.py")
handoff.without("a handoff is for five minutes", "HandoffTokens.seal", passes(expires_at="now + 10 * LIFETIME"))

signed_urls = door("foundation.crypto.signed_urls", "unit/foundation/crypto/test_signed_urls.py")
signed_urls.without(
    "a signed URL is verified",
    "UrlSigner.verify",
    replaced("any((hmac.compare_digest(claimed, _signature(key, base, params).encode()) for key in self._keys))", "claimed_signature"),
)
signed_urls.without("the signature covers the address", "_signature", replaced("_join(url, params)", '_join("", params)'))

csrf = door("foundation.crypto.csrf_token", "unit/foundation/crypto/test_csrf_token.py")
csrf.without("no other host plants a CSRF token", "CsrfTokens.__init__", passes(secure="False"))
csrf.without(
    "a CSRF token needs its cookie",
    "CsrfTokens.check",
    replaced(
        "if token is None or len(masked) != 2 * TOKEN_BYTES: ...",
        "if token is None:\n    return True\nif len(masked) != 2 * TOKEN_BYTES:\n    return False",
    ),
)

sign_out = door("authenticate.views.sign_out", "unit/authenticate/views/test_sign_out.py")
sign_out.without(
    "a link ends this browser's session alone",
    "_sign_out",
    replaced(
        'session is not None and request.method == "POST" and EVERYWHERE in request.POST',
        "session is not None and _field(request, EVERYWHERE)",
    ),
)

callback = door("proxy.views.route_host", "unit/proxy/views/test_route_host.py")
callback.without("one handoff at a time", "callback", replaced("len(tokens) != 1", "not tokens"))
callback.without(
    "an ended session is not handed over",
    "_establish_session",
    replaced(
        'return await _resume_or_deny(request, handoff.redirect_uri, Message("This session has ended."))',
        'session = type("Ended", (), {"id": handoff.session_id, "user_id": "", "expires_at": now + 60})',
    ),
)

loops = door("proxy.sign_in.loops", "unit/proxy/sign_in/test_loops.py")
loops.without("a sign-in loop ends", "SignInLoops.is_looping", replaced("self._count(...) >= MAX_SIGN_INS", "self._count(...) > 10 ** 9"))

targets = door("authenticate.redirect_targets", "unit/authenticate/test_redirect_targets.py")
targets.without("a backslash is no slash", "_URL", in_text(r"\[\]-", ""))

records = door("databroker.store.sealed", "unit/databroker/store/test_sealed.py")
records.without("a record opens in its own place only", "_associated_data", returns('b""'))
records.without("type and id do not run into each other", "_associated_data", returns('f"{type}{id}".encode()'))
records.without(
    "a reload brings no wrong secret in",
    "SealedStore.verify_key",
    replaced(
        "if (ciphers := self._ciphers) is self._verified_ciphers: ...", "ciphers = self._ciphers\nif self._verified_ciphers:\n    return"
    ),
)
records.without("resealing loses no write", "SealedStore.reseal", omits("only_if_version"))

redis_scripts = door("databroker.store.redis_scripts", "integration/databroker/store/test_redis_store.py", "contract/test_stores.py")
redis_scripts.without(
    "a restarted server is another",
    "_PRELUDE",
    in_text("found[3] ~= run_id", "not found[3]"),
    "integration/databroker/store/test_redis_store.py",
)
redis_scripts.without(
    "a write based on an older version is refused",
    "PUT",
    in_text("if only_if ~= '' and live_version(redis.call('HGET', records, name), now) ~= tonumber(only_if) then return false end", ""),
    "contract/test_stores.py",
)

redis_scripts.without(
    "in a full server sessions end",
    "_PRELUDE",
    in_text(
        """
  redis.call('ZREM', ids, name)
  redis.call('ZREM', expiries, name)
  redis.call('HSET', records, name, struct.pack('>ddd', version, now, HUGE))
""",
        """
  redis.call('HSET', records, name, struct.pack('>ddd', version, now, HUGE))
  redis.call('ZREM', ids, name)
  redis.call('ZREM', expiries, name)
""",
    ),
    "integration/databroker/store/test_redis_store.py",
)

elected = door("databroker.leader_election", "unit/databroker/test_leader_election.py")
elected.without(
    "work stops when its lease is lost", "_renew_while", replaced("if not await client.renew(...): return False", "await client.renew(...)")
)

replica = door("databroker.replica", "unit/databroker/test_replica.py")
replica.without(
    "what is cached grows too old",
    "Replica._confirm_current",
    replaced(
        "asyncio.get_running_loop().call_at(expires_at, self._drop_if_stale)",
        "asyncio.get_running_loop().call_at(expires_at + 10**6, self._drop_if_stale)",
    ),
)
replica.without("a stale copy answers no client that has seen more", "Replica.catch_up", replaced("self.is_serving", "self._is_following"))
replica.without(
    "no reader continues after a missed callback",
    "Replica.run",
    replaced("log.exception(...)", "raise"),
)
replica.without("a record ends while the stream is lost, too", "Replica.peek", replaced("self._clock()", "0"))

replica.without(
    "a server that restarts behind an unbroken line is known by its new version",
    "Replica._follow",
    replaced("server_version, position = await self._client.server_version(), NO_POSITION\ncontinue", "position = NO_POSITION\ncontinue"),
)

threads = door("databroker.store.database_threads", "unit/databroker/store/test_database_threads.py")
threads.without(
    "what was given up before it began is never done",
    "DatabaseExecutor._prepare_connection",
    replaced("raise OperationalError(...)", 'OperationalError("it was reached too late")'),
)

rotation = door("databroker.store.sealed", "unit/databroker/store/test_sealed.py")
rotation.without("records are sealed with the first key", "SealedStore._seal", replaced("self._ciphers[0]", "self._ciphers[-1]"))
rotation.without("an old key opens", "SealedStore._unseal", replaced("self._ciphers", "self._ciphers[:1]"))
