"""Defences of what travels through a browser: sealed for one purpose and one receiver, signed, and not for ever."""

from tests.mutants.mutant import door

sealing = door("foundation/crypto/sealing.py", "unit/foundation/crypto/test_sealing.py")
sealing.without("each purpose has a key of its own", 'info=b"gate/1/" + purpose.encode()', 'info=b"gate/1/"')
sealing.without("a sealed value expires", "        if now >= expires:\n", "        if False:\n")
sealing.without("a claim that is not there is a refusal", "        return Claims(claims)\n", "        return dict(claims)\n")
sealing.without("a value has one spelling", "if to_text(value) != text:", "if False:")
sealing.without("a sealed value is of a sensible size", "if not NONCE_BYTES + TAG_BYTES < len(sealed) <= MAX_SEALED:", "if False:")

session_cookie = door("foundation/crypto/session_cookie.py", "unit/foundation/crypto/test_session_cookie.py")
session_cookie.without("a cookie of one host is none at another", 'else f"host:{host_port}"', 'else "host"')
session_cookie.without("a domain covers its own hosts only", 'host.endswith("." + self._domain)', "host.endswith(self._domain)")
session_cookie.without("a cookie covers its own domain only", "if self.covers(host_port) else f", "if self._domain else f")
session_cookie.without(
    "a cookie that was opened is its own host's",
    """        opened = self._opened.get((value, host_port))
""",
    """        opened = next((opened for (known, _), opened in self._opened.items() if known == value), None)
        if opened is not None:
            self._opened[value, host_port] = opened
""",
)
session_cookie.without("a cookie that was opened expires", "        if now >= opened.token.expires:\n", "        if False:\n")
session_cookie.without("what is remembered of a browser ends in time", " or any(now >= token.expires for token in known):", ":")
session_cookie.without(
    "what is remembered of a browser is its host's",
    "browser = (tuple(cookie_headers), host_port)",
    'browser = (tuple(cookie_headers), "a")',
)
session_cookie.without("who has no session is not remembered", "            if known:\n", "            if True:\n")
session_cookie.without("few opened cookies are remembered", "        if len(self._opened) > MOST_OPENED:\n", "        if False:\n")

session_cookie.without("a session counts beside its companion only", " if any(each.has_companion(value) for value in companions)]", "]")
session_cookie.without("a companion is one session's", "json.dumps([session_id, host_port])", "json.dumps([host_port])")
session_cookie.without("a companion is one host's", "json.dumps([session_id, host_port])", "json.dumps([session_id])")
session_cookie.without("a companion is made under a key of ours", "hmac.digest(key, told", 'hmac.digest(b"known", told')
session_cookie.without("a companion has its session's end", "value, max_age=max_age, secure=True)]", "value, max_age=9, secure=True)]")
session_cookie.without("two live sessions are none", "return found[0] if len(found) == 1 else None", "return found[0] if found else None")
session_cookie.without("a planted value hides no session", "with suppress(SealError):", "with suppress(ZeroDivisionError):")
session_cookie.without(
    "who brings several loses all of them", "in cookies.parse(cookie_headers)) < 2:", "in cookies.parse(cookie_headers)) < 9:"
)

prefix = door(
    "foundation/crypto/cookies.py",
    "unit/foundation/crypto/test_cookies.py",
    "unit/foundation/crypto/test_session_cookie.py",
)
prefix.without("nobody else sets a cookie of this host", "else HOST_PREFIX + name", "else name")
prefix.without("a planted cookie is cleared where it is", '("", *_domains_of(host_port))]', '("",)]')

admin_cookies = door("gateproject/settings.py", "unit/gateproject/test_settings.py")
admin_cookies.without(
    "nobody plants an admin's session", 'secure=options.cookie_secure) for name in ("admin"', 'secure=False) for name in ("admin"'
)

attempts = door("foundation/crypto/sign_in_attempts.py", "unit/foundation/crypto/test_sign_in_attempts.py")
attempts.without("nobody plants an attempt", '_signin_", secure=options.cookie_secure)', '_signin_", secure=False)')
attempts.without("an attempt belongs to its host", 'return f"{attempt_id}@{host_port}"', "return attempt_id")
attempts.without("an attempt answers to its own id", 'return f"{attempt_id}@{host_port}"', "return host_port")
attempts.without("the two kinds of attempts are never interchanged", 'f"sign-in attempt/{purpose}"', '"sign-in attempt"')

hand_over = door("foundation/crypto/hand_over.py", "unit/foundation/crypto/test_hand_over.py")
hand_over.without(
    "a hand-over is for five minutes", "audience=host_port, expires=now + LIFETIME)", "audience=host_port, expires=now + 10 * LIFETIME)"
)

signed_urls = door("foundation/crypto/signed_urls.py", "unit/foundation/crypto/test_signed_urls.py")
signed_urls.without(
    "a signed URL is ours",
    "if not any(hmac.compare_digest(claimed, _signature(key, base, params).encode()) for key in self._keys):",
    "if not claimed_signature:",
)
signed_urls.without("a signed URL grows old", "if now > expiry + LEEWAY or now < issued - LEEWAY:", "if now < issued - LEEWAY:")
signed_urls.without("a signed URL is not of the future", " or now < issued - LEEWAY:", ":")
signed_urls.without("a parameter given twice is refused", "if len(params) != len(pairs) or SIGNATURE", "if SIGNATURE")
signed_urls.without("the signature covers the address", "_join(url, params).encode()", '_join("", params).encode()')

csrf = door("foundation/crypto/csrf_token.py", "unit/foundation/crypto/test_csrf_token.py")
csrf.without("nobody plants a CSRF token", '_csrf", secure=options.cookie_secure)', '_csrf", secure=False)')
csrf.without(
    "a CSRF token is this browser's", "return hmac.compare_digest(_xor(masked[:TOKEN_BYTES], masked[TOKEN_BYTES:]), token)", "return True"
)
csrf.without(
    "a CSRF token needs its cookie",
    "if token is None or len(masked) != 2 * TOKEN_BYTES:",
    "if token is None:\n            return True\n        if len(masked) != 2 * TOKEN_BYTES:",
)

sign_out = door("authenticate/views/sign_out.py", "unit/authenticate/views/test_sign_out.py")
sign_out.without(
    "a link ends this browser's session alone", 'request.method == "POST" and EVERYWHERE in request.POST', "_field(request, EVERYWHERE)"
)
sign_out.without("on all devices ends them all", "            await service.sessions.end_all_of(session)\n", "            pass\n")
sign_out.without(
    "sign-out leaves no session behind",
    "    await service.sessions.end_carried(headers, service.host_port, now)\n",
    "",
    "unit/authenticate/test_endings.py",
)
sign_out.without("sign-out needs proof", 'if request.method == "HEAD" or not is_proven:', 'if request.method == "HEAD":')
sign_out.without("sign-out's proof is this session's", 'return session.id if session is not None else ""', 'return ""')

callback = door("proxy/sign_in/views.py", "unit/proxy/sign_in/test_views.py")
callback.without("a hand-over is this browser's", "    if attempt is None:\n", "    if False:\n")
callback.without("a hand-over is used once", 'if not await own.broker.spend(f"hand-over/{hand_over.id}", hand_over.expires):', "if False:")
callback.without(
    "a hand-over stays on its host",
    "    if _origin(hand_over.redirect_uri) != own.proxy.origin_of(own.incoming.request):\n",
    "    if False:\n",
)
callback.without("one hand-over at a time", "if len(tokens) != 1:", "if not tokens:")
callback.without(
    "an ended session is not handed over",
    '        return await _continue_or_refuse(request, hand_over.redirect_uri, "This session has ended.")\n',
    '        session = type("Ended", (), {"id": hand_over.session_id, "user_id": "", "expires": now + 60})\n',
)

loops = door("proxy/sign_in/loops.py", "unit/proxy/sign_in/test_loops.py")
loops.without("a sign-in loop ends", ">= TOO_MANY", "> 10**9")

targets = door("authenticate/redirect_targets.py", "unit/authenticate/test_redirect_targets.py")
targets.without(
    "a browser is sent to hosts of ours only",
    "if target is not None and (self.is_own(target) or is_route_origin(target.origin)):",
    "if target is not None:",
)
targets.without("a backslash is no slash", r"[!-\[\]-~]", "[!-~]")
targets.without(
    "a port of the other scheme is no port",
    "(port > MAX_PORT or (port in _DEFAULT_PORTS.values() and port != _DEFAULT_PORTS[scheme]))",
    "port > MAX_PORT",
)

records = door("databroker/store/sealed.py", "unit/databroker/store/test_sealed.py")
records.without("a record opens in its own place only", 'return f"{len(type)}:{type}{id}".encode()', 'return b""')
records.without("type and id do not run into each other", 'return f"{len(type)}:{type}{id}".encode()', 'return f"{type}{id}".encode()')
records.without("a wrong secret is an error", "if record is None or _data_in(ciphers, record) is None:", "if record is None:")
records.without(
    "a reload brings no wrong secret in",
    "if (ciphers := self._ciphers) is self._checked:",
    "ciphers = self._ciphers\n        if self._checked:",
)
records.without("resealing loses no write", "expires=record.expires, only_if_version=record.version)", "expires=record.expires)")
records.without(
    "what can't be read is told as deleted",
    "yield change if change.record is None else replace(change, record=self._opened(change.record))",
    "yield change",
)

kvscripts = door("databroker/store/kvscripts.py", "unit/databroker/store/test_kvstore.py", "contract/test_stores.py")
kvscripts.without(
    "a server that began anew is another", "if found[3] ~= run_id then", "if not found[3] then", "unit/databroker/store/test_kvstore.py"
)
kvscripts.without(
    "a write based on an older version is refused",
    "if only_if ~= '' and live_version(redis.call('HGET', records, name), now) ~= tonumber(only_if) then return false end",
    "",
    "contract/test_stores.py",
)

kvscripts.without(
    "in a full server sessions end",
    """  redis.call('ZREM', ids, name)
  redis.call('ZREM', expiries, name)
  redis.call('HSET', records, name, struct.pack('>ddd', version, now, HUGE))
""",
    """  redis.call('HSET', records, name, struct.pack('>ddd', version, now, HUGE))
  redis.call('ZREM', ids, name)
  redis.call('ZREM', expiries, name)
""",
    "unit/databroker/store/test_kvstore.py",
)

kvstore = door("databroker/store/kvstore.py", "unit/databroker/store/test_kvstore.py")
kvstore.without(
    "another server is noticed from the first moment",
    "                    self._wake_readers()  # what",
    "                    pass  # what",
)
kvstore.without("news of a life that was wiped keep nobody busy", "                self._leave_life_above(version)\n", "")

elected = door("databroker/leader_election.py", "unit/databroker/test_leader_election.py")
elected.without(
    "work stops when its lease is lost", "                    return False\n            ends", "                    pass\n            ends"
)

replica = door("databroker/replica.py", "unit/databroker/test_replica.py")
replica.without("what is cached grows too old", "call_at(ends, self._grow_old)", "call_at(ends + 10**6, self._grow_old)")
replica.without("a stream that is back begins with nothing", "            cache.clear()\n", "            pass\n")
replica.without("what is in flight when the stream is lost is not cached", "self._is_following or key[0]", "False or key[0]")
replica.without(
    "a stale copy answers nobody who has seen more", "while version and self._is_serving and", "while version and self._is_following and"
)
replica.without(
    "nobody goes on from what a callback missed",
    '                    log.exception("a change was not told to the end")\n',
    "                    raise\n",
)
replica.without("what this process deletes is gone at once", "            self._cache[type].drop(id)\n", "            pass\n")
replica.without("a record ends while the stream is lost, too", "record.expires <= self._clock():", "record.expires <= 0:")

replica.without(
    "a server that restarts behind an unbroken line is known by its new version",
    "                    server_version, position = await self._client.server_version(), ANEW\n                    continue",
    "                    position = ANEW\n                    continue",
)

postgresql_engine = door("gateproject/postgresql_engine/base.py", "unit/gateproject/postgresql_engine/test_base.py")
postgresql_engine.without("nobody waits for ever for a server that hangs", "None if bound == inf else bound)", "None)")
postgresql_engine.without("an answer that came too late is nobody's", "            self.pgconn.finish()  # the", "            pass  # the")

threads = door("databroker/store/database_threads.py", "unit/databroker/store/test_database_threads.py")
threads.without("what was given up before it began is never done", "raise OperationalError(", "OperationalError(")

forgetting = door("databroker/client.py", "unit/databroker/test_client.py")
forgetting.without("a deletion is heard of in its own process", "        self._forget(type, id)\n", "")

rotation = door("databroker/store/sealed.py", "unit/databroker/store/test_sealed.py")
rotation.without("records are sealed with the first key", "self._ciphers[0].encrypt(", "self._ciphers[-1].encrypt(")
rotation.without("an old key opens", "data = _data_in(self._ciphers, record)", "data = _data_in(self._ciphers[:1], record)")

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
