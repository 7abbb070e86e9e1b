"""Defences of what travels through a browser: sealed for one purpose and one receiver, signed, and not for ever."""

from tests.mutants.mutant import door
from tests.mutants.operations import always, in_text, lacks, never, omits, passes, replaced, returns, skips

sealing = door("foundation.crypto.sealing", "unit/foundation/crypto/test_sealing.py")
sealing.without("each purpose has a key of its own", "derive_key", passes(info='b"gate/1/"'))
sealing.without("a sealed value expires", "Sealer.open", never("now >= expires"))
sealing.without("a claim that is not there is a refusal", "Sealer.open", replaced("Claims(claims)", "dict(claims)"))
sealing.without("a value has one spelling", "from_text", never("to_text(value) != text"))
sealing.without("a sealed value is of a sensible size", "Sealer.open", never("not NONCE_BYTES + TAG_BYTES < len(sealed) <= MAX_SEALED"))

session_cookie = door("foundation.crypto.session_cookie", "unit/foundation/crypto/test_session_cookie.py")
session_cookie.without("a cookie of one host is none at another", "SessionCookies.audience", replaced('f"host:{host_port}"', '"host"'))
session_cookie.without("a domain covers its own hosts only", "SessionCookies.covers", replaced('"." + self._domain', "self._domain"))
session_cookie.without("a cookie covers its own domain only", "SessionCookies.audience", replaced("self.covers(host_port)", "self._domain"))
session_cookie.without(
    "a cookie that was opened is its own host's",
    "SessionCookies._remembered",
    replaced(
        "opened = ...",
        "opened = next((opened for (known, _), opened in self._opened.items() if known == value), None)\nif opened is not None:\n    self._opened[value, host_port] = opened",
    ),
)
session_cookie.without("a cookie that was opened expires", "SessionCookies._remembered", never("now >= opened.token.expires"))
session_cookie.without("what is remembered of a browser ends in time", "SessionCookies.counting", always("now < known.until"))
session_cookie.without(
    "what is remembered of a browser is its host's",
    "SessionCookies.counting",
    replaced("(tuple(cookie_headers), host_port)", '(tuple(cookie_headers), "a")'),
)
session_cookie.without("who has no session is not remembered", "SessionCookies.counting", replaced("if tokens: ...", "if True: ..."))
session_cookie.without("few opened cookies are remembered", "SessionCookies._open", never("len(self._opened) > MOST_OPENED"))

session_cookie.without(
    "a session counts beside its companion only",
    "SessionCookies._counting",
    always("any((each.has_companion(value) for value in companions))"),
)
session_cookie.without("a companion is one session's", "SessionCookies._companions", lacks("session_id"))
session_cookie.without("a companion is one host's", "SessionCookies._companions", lacks("host_port"))
session_cookie.without(
    "a companion is made under a key of ours",
    "SessionCookies._companions",
    replaced('hmac.digest(key, told, "sha256")', 'hmac.digest(b"known", told, "sha256")'),
)
session_cookie.without("a companion has its session's end", "SessionCookies._companion", passes(max_age="9"))
session_cookie.without("two live sessions are none", "SessionCookies.of_browser", replaced("len(found) == 1", "found"))
session_cookie.without(
    "a planted value hides no session", "SessionCookies._opened_of", replaced("suppress(SealError)", "suppress(ZeroDivisionError)")
)
session_cookie.without("who brings several loses all of them", "SessionCookies.clear_planted", replaced("2", "9"))

prefix = door(
    "foundation.crypto.cookies",
    "unit/foundation/crypto/test_cookies.py",
    "unit/foundation/crypto/test_session_cookie.py",
)
prefix.without("nobody else sets a cookie of this host", "host_name", replaced("HOST_PREFIX + name", "name"))
prefix.without("a planted cookie is cleared where it is", "clear_everywhere", lacks("*_domains_of(host_port)"))

admin_cookies = door("gateproject.settings", "unit/gateproject/test_settings.py")
admin_cookies.without("nobody plants an admin's session", "cookie_settings", passes(secure="False"))

attempts = door("foundation.crypto.sign_in_attempts", "unit/foundation/crypto/test_sign_in_attempts.py")
attempts.without("nobody plants an attempt", "SignInAttempts.__init__", passes(secure="False"))
attempts.without("an attempt belongs to its host", "SignInAttempts._audience", returns("attempt_id"))
attempts.without("an attempt answers to its own id", "SignInAttempts._audience", returns("host_port"))
attempts.without(
    "the two kinds of attempts are never interchanged",
    "SignInAttempts.__init__",
    replaced('f"sign-in attempt/{purpose}"', '"sign-in attempt"'),
)

hand_over = door("foundation.crypto.hand_over", "unit/foundation/crypto/test_hand_over.py")
hand_over.without("a hand-over is for five minutes", "HandOvers.seal", passes(expires="now + 10 * LIFETIME"))

signed_urls = door("foundation.crypto.signed_urls", "unit/foundation/crypto/test_signed_urls.py")
signed_urls.without(
    "a signed URL is ours",
    "UrlSigner.verify",
    replaced("any((hmac.compare_digest(claimed, _signature(key, base, params).encode()) for key in self._keys))", "claimed_signature"),
)
signed_urls.without("a signed URL grows old", "UrlSigner.verify", never("now > expiry + LEEWAY"))
signed_urls.without("a signed URL is not of the future", "UrlSigner.verify", never("now < issued - LEEWAY"))
signed_urls.without("a parameter given twice is refused", "_split", never("len(params) != len(pairs)"))
signed_urls.without("the signature covers the address", "_signature", replaced("_join(url, params)", '_join("", params)'))

csrf = door("foundation.crypto.csrf_token", "unit/foundation/crypto/test_csrf_token.py")
csrf.without("nobody plants a CSRF token", "CsrfTokens.__init__", passes(secure="False"))
csrf.without(
    "a CSRF token is this browser's",
    "CsrfTokens.check",
    always("hmac.compare_digest(_xor(masked[:TOKEN_BYTES], masked[TOKEN_BYTES:]), token)"),
)
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
    "_signed_out",
    replaced(
        'session is not None and request.method == "POST" and EVERYWHERE in request.POST',
        "session is not None and _field(request, EVERYWHERE)",
    ),
)
sign_out.without("on all devices ends them all", "_end", skips("await service.sessions.end_all_of(...)"))
sign_out.without(
    "sign-out leaves no session behind",
    "_signed_out",
    skips("await service.sessions.end_carried(...)"),
    "unit/authenticate/test_endings.py",
)
sign_out.without("sign-out needs proof", "sign_out", always("is_proven"))
sign_out.without("sign-out's proof is this session's", "_bound_to", returns('""'))

callback = door("proxy.views.route_host", "unit/proxy/views/test_route_host.py")
callback.without("a hand-over is this browser's", "_accept", never("attempt is None"))
callback.without(
    "a hand-over is used once", "_accept", never('not await consume_once(own.broker, f"hand-over/{hand_over.id}", hand_over.expires)')
)
callback.without(
    "a hand-over stays on its host",
    "callback",
    never("_origin(hand_over.redirect_uri) != own.proxy.origin_of(own.incoming.request)"),
)
callback.without("one hand-over at a time", "callback", replaced("len(tokens) != 1", "not tokens"))
callback.without(
    "an ended session is not handed over",
    "_accept",
    replaced(
        'return await _continue_or_refuse(request, hand_over.redirect_uri, Message("This session has ended."))',
        'session = type("Ended", (), {"id": hand_over.session_id, "user_id": "", "expires": now + 60})',
    ),
)

loops = door("proxy.sign_in.loops", "unit/proxy/sign_in/test_loops.py")
loops.without("a sign-in loop ends", "SignInLoops.is_looping", replaced("self._count(...) >= TOO_MANY", "self._count(...) > 10 ** 9"))

targets = door("authenticate.redirect_targets", "unit/authenticate/test_redirect_targets.py")
targets.without(
    "a browser is sent to hosts of ours only",
    "RedirectTargets.target",
    always("self.is_own(target)"),
)
targets.without("a backslash is no slash", "_URL", in_text(r"\[\]-", ""))
targets.without(
    "a port of the other scheme is no port",
    "parse",
    never("port in DEFAULT_PORTS.values()"),
)

records = door("databroker.store.sealed", "unit/databroker/store/test_sealed.py")
records.without("a record opens in its own place only", "_associated", returns('b""'))
records.without("type and id do not run into each other", "_associated", returns('f"{type}{id}".encode()'))
records.without("a wrong secret is an error", "SealedStore.check", never("_data_in(ciphers, record) is None"))
records.without(
    "a reload brings no wrong secret in",
    "SealedStore.check",
    replaced("if (ciphers := self._ciphers) is self._checked: ...", "ciphers = self._ciphers\nif self._checked:\n    return"),
)
records.without("resealing loses no write", "SealedStore.reseal", omits("only_if_version"))
records.without(
    "what can't be read is told as deleted",
    "SealedStore.changes",
    always("change.record is None"),
)

kvscripts = door("databroker.store.kvscripts", "integration/databroker/store/test_kvstore.py", "contract/test_stores.py")
kvscripts.without(
    "a server that began anew is another",
    "_PRELUDE",
    in_text("found[3] ~= run_id", "not found[3]"),
    "integration/databroker/store/test_kvstore.py",
)
kvscripts.without(
    "a write based on an older version is refused",
    "PUT",
    in_text("if only_if ~= '' and live_version(redis.call('HGET', records, name), now) ~= tonumber(only_if) then return false end", ""),
    "contract/test_stores.py",
)

kvscripts.without(
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
    "integration/databroker/store/test_kvstore.py",
)

kvstore = door("databroker.store.kvstore", "integration/databroker/store/test_kvstore.py")
kvstore.without(
    "another server is noticed from the first moment",
    "KvStore._listen",
    replaced("if not life: ...", "if not life: life, self._news_version = await self._greet(), 0"),
)
kvstore.without("news of a life that was wiped keep nobody busy", "KvStore.changes", skips("self._leave_life_above(version)"))

elected = door("databroker.leader_election", "unit/databroker/test_leader_election.py")
elected.without(
    "work stops when its lease is lost", "_renew_while", replaced("if not await client.renew(...): return False", "await client.renew(...)")
)

replica = door("databroker.replica", "unit/databroker/test_replica.py")
replica.without(
    "what is cached grows too old",
    "Replica._was_right",
    replaced(
        "asyncio.get_running_loop().call_at(ends, self._grow_old)", "asyncio.get_running_loop().call_at(ends + 10**6, self._grow_old)"
    ),
)
replica.without("a stream that is back begins with nothing", "Replica._forget_all", skips("cache.clear()"))
replica.without("what is in flight when the stream is lost is not cached", "Replica._remember", never("self._is_following"))
replica.without("a stale copy answers nobody who has seen more", "Replica.catch_up", replaced("self.is_serving", "self._is_following"))
replica.without(
    "nobody goes on from what a callback missed",
    "Replica.run",
    replaced("log.exception(...)", "raise"),
)
replica.without("what this process deletes is gone at once", "Replica.forget", skips("self._cache[type].drop(id)"))
replica.without("a type that it does not follow changes nothing", "Replica.forget", always("type in self._types"))
replica.without("a record ends while the stream is lost, too", "Replica.peek", replaced("self._clock()", "0"))

replica.without(
    "a server that restarts behind an unbroken line is known by its new version",
    "Replica._follow",
    replaced("server_version, position = await self._client.server_version(), ANEW\ncontinue", "position = ANEW\ncontinue"),
)

postgresql_engine = door("gateproject.postgresql_engine.base", "unit/gateproject/postgresql_engine/test_base.py")
postgresql_engine.without("nobody waits for ever for a server that hangs", "DeadlineConnection.wait", always("bound == inf"))
postgresql_engine.without("an answer that came too late is nobody's", "DeadlineConnection.wait", skips("self.pgconn.finish()"))

threads = door("databroker.store.database_threads", "unit/databroker/store/test_database_threads.py")
threads.without(
    "what was given up before it began is never done",
    "DatabaseThreads._begin",
    replaced("raise OperationalError(...)", 'OperationalError("it was reached too late")'),
)

forgetting = door("databroker.client", "unit/databroker/test_client.py")
forgetting.without("a deletion is heard of in its own process", "ForgettingBroker.delete", skips("self._forget(type, id)"))

rotation = door("databroker.store.sealed", "unit/databroker/store/test_sealed.py")
rotation.without("records are sealed with the first key", "SealedStore._sealed", replaced("self._ciphers[0]", "self._ciphers[-1]"))
rotation.without("an old key opens", "SealedStore._opened", replaced("self._ciphers", "self._ciphers[:1]"))

DOORS = (
    kvstore,
    replica,
    postgresql_engine,
    threads,
    forgetting,
    rotation,
    sealing,
    session_cookie,
    prefix,
    admin_cookies,
    attempts,
    hand_over,
    signed_urls,
    csrf,
    sign_out,
    callback,
    loops,
    targets,
    records,
    kvscripts,
    elected,
)
