"""Defences of what lives: sessions that ended stay ended, streams end with them, the admin is for whom it names."""

from tests.mutants.mutant import door

broker = door("databroker/client.py", "unit/databroker/test_client.py")
broker.without(
    "an id is spent once",
    "        except VersionConflict:\n            return False\n",
    "        except VersionConflict:\n            return True\n",
)

memory = door("databroker/store/memory.py", "unit/databroker/store/test_memory.py", "contract/test_stores.py")
memory.without(
    "an expired record is gone",
    "if record is None or (record.expires is not None and record.expires <= self._clock()):",
    "if record is None:",
)
memory.without(
    "who writes second is told", "if only_if_version is not None and only_if_version != (found.version if found else 0):", "if False:"
)

replica = door("databroker/replica.py", "unit/databroker/test_replica.py")
replica.without(
    "an ended session leaves the replica",
    "                cache.drop(change.id)\n",
    "                pass\n",
)
replica.without(
    "an expired record leaves the replica",
    "if record is not None and record.expires is not None and record.expires <= self._clock():",
    "if False:",
)
replica.without(
    "a cached identity hears that a record expired",
    "return cache.version(id, self._clock())",
    "return cache.held_version(id)",
)
replica.without("nothing is believed while the stream is broken", "            cache.clear()\n", "            pass\n")
replica.without("an answer that a change overtook is not remembered", "        self._calls.pop(key, None)  # what", "        pass  # what")
replica.without("a new session is seen at once", " or (record is None and key[0] in SEEN_AT_ONCE):", ":")
replica.without("a new service account is seen at once", "frozenset({SESSION, SERVICE_ACCOUNT})", "frozenset({SESSION})")
replica.without("what was derived hears of a change", "        self._tell(change)\n\n    async def _fetch", "\n    async def _fetch")

streams = door("proxy/planes/open_streams.py", "unit/proxy/planes/test_open_streams.py")
streams.without("who has no access any more waits for no provider", "AFAR if stream.asks_provider else None", "None")
streams.without(
    "one stream's trouble is nobody else's",
    "asyncio.get_running_loop().call_soon(self._end_now, stream)",
    "self._end_now(stream)",
)
streams.without("a stream ends with its session", 'self._end(self._by_session.get(change.id, ()), "the session has ended")', "pass")
streams.without(
    "one that can't be judged keeps no other waiting",
    "key=lambda stream: (stream.asks_provider, stream in unjudged)",
    "key=lambda stream: stream.asks_provider",
)
streams.without("an error in judging one stream lets no other go on", 'self._end((stream,), "its access could not be judged")', "raise")
streams.without("a stream ends where its policy does", 'self._end((stream,), "access was withdrawn")', "pass")

LIVE_ADMIN = "integration/test_admin.py"
admin_site = door("gateproject/admin_site.py", LIVE_ADMIN)
admin_site.without(
    "the admin asks for the session again",
    "return identity is not None and identity.session_id == signed_in_by and may_administer(request, identity)",
    "return True",
)
admin_site.without("the admin is for whom it names", "if not may_administer(request, identity):", "if False:")
admin_site.without("the admin's next page is the admin's", "return wanted if is_inside and", "return wanted if")

databroker_admin = door("databroker/admin.py", "unit/databroker/test_admin.py")
databroker_admin.without(
    "nobody edits rows",
    "def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:\n        return False",
    "def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:\n        return True",
)
databroker_admin.without("the admin's tables are for its people", "return request.user.is_active and request.user.is_staff", "return True")

databroker_admin.without(
    "a session ends outside of a transaction",
    "return self._delete_view(request, object_id, context)",
    "return super().delete_view(request, object_id, context)",
)

audit = door("databroker/adminsite/audit.py", "unit/databroker/adminsite/test_audit.py", "unit/databroker/test_admin.py")
audit.without("the log can't be filled by who is not let in", "    if not account:\n", "    if False:\n")
audit.without("nothing becomes a formula in a spreadsheet", "if text.startswith(", "if not text.startswith(")

entries = door("databroker/models.py", "unit/databroker/adminsite/test_audit.py")
entries.without("no entry is written over", "        if self.pk is not None:\n", "        if False:\n")
entries.without(
    "no entries are written over",
    """    def update(self, **values: object) -> int:
        raise TypeError("what is in the audit log stays as it was written")

""",
    "",
)

together = door("databroker/end_sessions.py", "unit/databroker/test_end_sessions.py", "unit/authenticate/test_endings.py")
together.without("the weaker sessions of a browser end, too", "earlier = await earlier_of(broker, chosen)", "earlier = list[str]()")
together.without(
    "an end that failed halfway can be asked for again",
    "for wave in ([id for id in earlier if id not in chosen], chosen):",
    "for wave in (chosen, [id for id in earlier if id not in chosen]):",
)
at_the_provider = door("authenticate/session/provider_logout.py", "unit/authenticate/test_endings.py")
at_the_provider.without(
    "the provider's word ends what a session grew out of",
    "for id in await end_sessions(self._broker, batch):",
    'for id in [id for id in batch if await self._broker.delete("session", id)]:',
)
by_the_directory = door("authenticate/scim/access_records.py", "unit/authenticate/test_endings.py")
by_the_directory.without("who is deactivated is out everywhere", "for id in await end_sessions(self._broker, ids):", "for id in ids:")
refused = door("authenticate/session/refresh.py", "unit/authenticate/test_endings.py")
refused.without(
    "a session that is refused ends with what it grew out of",
    "await end_sessions(self._broker, [session.id])",
    'await self._broker.delete("session", session.id)',
)

ending = door("databroker/adminsite/end_sessions.py", "unit/databroker/adminsite/test_end_sessions.py")
ending.without(
    "the log is written before a session ends",
    "        record_actions(self.request, ENDS, [(id, names.get(id, id)) for id in ids], Session)\n        over: list[str] = []\n",
    "        over: list[str] = []\n",
)
ending.without("the log is written before a person's sessions end", "        record_actions(self.request, ENDS_ALL, whom, User)\n", "")
ending.without("what could not be ended is told of", "            record_actions(self.request, NOT_ENDED, [", "            ([")
ending.without("sessions without a row end, too", "            self._end_those_without_row(people)\n", "")
ending.without("the weaker sessions of a browser are told of, too", "[*async_to_sync(earlier_of)(broker, chosen), *chosen]", "chosen")
ending.without("an action has an end", "if self.clock() >= self._until:", "if False:")

details = door("databroker/adminsite/details.py", "unit/databroker/adminsite/test_details.py", "integration/test_admin_secrets.py")
details.without("only named fields are shown", "{name: data.get(name) for name in SHOWN_FIELDS}", "data")
details.without("no claim that ties tokens together", " if name not in _HIDDEN_CLAIMS]", "]")
details.without("no claim that repeats a token", " or any(secret in text for secret in secrets):", ":")
details.without("no claim that says it is secret", "if _SECRET_NAME.search(name) or _JWT", "if _JWT")
details.without("no secret inside a claim", "HIDDEN if _SECRET_NAME.search(str(name)) else ", "")
details.without("no signed token as a claim", " or _JWT.search(text)", "")

rows = door("databroker/tables/rows.py", "integration/test_admin_secrets.py")
rows.without("no token reaches the tables", 'user_agent=_text(data, "user_agent", 512)', 'user_agent=_text(data, "access_token", 512)')

policy_page = door("proxy/policy_words.py", "unit/proxy/test_policy_words.py")
policy_page.without("the values of headers stay out of the page", 'if comparison.criterion == "http_header":', "if False:")

clocks = door("databroker/store/kvscripts.py", "contract/test_stores.py::test_whose_clock_is_ahead_ends_nothing_that_is_good_for_others")
clocks.without(
    "a clock that is ahead ends nothing in the kvstore",
    "return math.min(tonumber(ours), tonumber(time[1]) + tonumber(time[2]) / 1000000)",
    "return tonumber(ours)",
)
database_clock = door(
    "databroker/store/database.py", "contract/test_stores.py::test_whose_clock_is_ahead_ends_nothing_that_is_good_for_others"
)
database_clock.without("a clock that is ahead ends nothing in the database", "return min(ours, _one_clock(ours))", "return ours")
clock_watch = door("databroker/clock_skew.py", "unit/databroker/test_clock_skew.py")
clock_watch.without("a clock that differs is told", "if abs(skew) <= BORNE:", "if True:")

silence = door("databroker/replica.py", "unit/databroker/test_replica.py")
silence.without(
    "what is served is counted from the last word",
    "                self._was_right(asked)\n                self._move(position)\n",
    "                self._move(position)\n",
)

DOORS = (
    silence,
    clocks,
    database_clock,
    clock_watch,
    together,
    at_the_provider,
    by_the_directory,
    refused,
    policy_page,
    broker,
    memory,
    replica,
    streams,
    admin_site,
    databroker_admin,
    audit,
    entries,
    ending,
    details,
    rows,
)
