"""Defences of what lives: sessions that ended stay ended, streams end with them, the admin is for whom it names."""

from tests.mutants.mutant import door
from tests.mutants.operations import always, constant, in_text, never, replaced, returns, skips

broker = door("databroker.client", "unit/databroker/test_client.py")
broker.without(
    "an id is spent once",
    "consume_once",
    replaced("return False", "return True"),
)

memory = door("databroker.store.memory", "unit/databroker/store/test_memory.py", "contract/test_stores.py")
memory.without(
    "an expired record is gone",
    "MemoryStore._live",
    never("record.expires is not None"),
)
memory.without(
    "who writes second is told",
    "MemoryStore.put",
    never("only_if_version is not None and only_if_version != (found.version if found else 0)"),
)

replica = door("databroker.replica", "unit/databroker/test_replica.py")
replica.without(
    "an ended session leaves the replica",
    "Replica._apply",
    skips("cache.drop(change.id)"),
)
replica.without(
    "an expired record leaves the replica",
    "Replica.peek",
    never("record is not None and record.expires is not None and record.expires <= self._clock()"),
)
replica.without(
    "a cached identity hears that a record expired",
    "Replica.version",
    replaced("cache.version(id, self._clock())", "cache.held_version(id)"),
)
replica.without("nothing is believed while the stream is broken", "Replica._forget_all", skips("cache.clear()"))
replica.without("an answer that a change overtook is not remembered", "Replica._apply", skips("self._fetches.drop(...)"))
replica.without("a new session is seen at once", "Replica._remember", never("record is None and key[0] in SEEN_AT_ONCE"))
replica.without("a new service account is seen at once", "SEEN_AT_ONCE", constant("frozenset({SESSION})"))
replica.without("what was derived hears of a change", "Replica._apply", skips("self._tell(change)"))

streams = door("proxy.planes.open_streams", "unit/proxy/planes/test_open_streams.py")
streams.without("who has no access any more waits for no provider", "OpenStreams.run", never("stream.asks_provider"))
streams.without(
    "one stream's trouble is nobody else's",
    "OpenStreams._end",
    replaced("asyncio.get_running_loop().call_soon(self._end_now, stream)", "self._end_now(stream)"),
)
streams.without("a stream ends with its session", "OpenStreams.on_change", skips("self._end(...)"))
streams.without(
    "one that can't be judged keeps no other waiting",
    "OpenStreams.run",
    replaced("(stream.asks_provider, stream in unjudged)", "stream.asks_provider"),
)
streams.without(
    "an error in judging one stream lets no other go on",
    "OpenStreams.run",
    replaced('self._end((stream,), "re-authorization failed")', "raise"),
)
streams.without("an end that was known needs nobody", "OpenStreams.run", skips("self._end_what_must_be_over()"))
streams.without("an end that was put off is known", "OpenStreams.run", skips("stream.ends = until"))
streams.without("a stream ends where its policy does", "OpenStreams.run", skips('self._end((stream,), "access revoked")'))

known_end = door("authorize.service", "contract/test_authorizers.py", "unit/authorize/test_service.py")
known_end.without("access for a while ends when it was to end", "_known_end", replaced("min(ends, span.until)", "ends"))
known_end.without("a session ends whoever has signed it in", "_known_end", replaced("identity.is_own", "identity.own_subject"))
told_end = door("authorize.rpc.client", "contract/test_authorizers.py")
told_end.without("an end that another process knows is known", "_end", returns("math.inf"))

LIVE_ADMIN = "integration/test_admin.py"
admin_site = door("gateproject.admin_site", LIVE_ADMIN)
admin_site.without(
    "the admin asks for the session again",
    "GateAdminSite.has_permission",
    always("identity is not None and identity.session_id == signed_in_by and may_administer(request, identity)"),
)
password_login = door("gateproject.admin_site", "unit/gateproject/test_admin_site.py")
password_login.without(
    "an account without permissions enters no page",
    "GateAdminSite.has_permission",
    replaced(
        "page_context(request).options.admin_password_login and request.user.is_superuser",
        "page_context(request).options.admin_password_login",
    ),
)
admin_site.without("the admin is for whom it names", "GateAdminSite.login", never("not may_administer(request, identity)"))
admin_site.without("the admin's next page is the admin's", "_target", always("is_inside"))

read_only_admin = door("databroker.adminsite.read_only", "unit/databroker/adminsite/test_read_only.py")
read_only_admin.without(
    "nobody edits rows",
    "ReadOnlyAdmin.has_change_permission",
    returns("True"),
)
read_only_admin.without("the admin's tables are for its people", "ReadOnlyAdmin.has_view_permission", returns("True"))

databroker_admin = door("databroker.admin", "unit/databroker/test_admin.py")
databroker_admin.without(
    "a session ends outside of a transaction",
    "SessionAdmin.delete_view",
    replaced("self._delete_view", "super().delete_view"),
)

audit = door("databroker.adminsite.audit", "unit/databroker/adminsite/test_audit.py", "unit/databroker/test_admin.py")
audit.without("the log can't be filled by who is not let in", "record_actions", never("stranger is not None"))
audit.without("nothing becomes a formula in a spreadsheet", "_plain", replaced('_FORMULA.sub(r"\\1\'", text)', "text"))
audit.without("no text of an entry stops the others", "_entry", replaced("plain_text(text)", "text"))
audit.without("who came in by single sign-on is named by their id", "administrator", always("user_id is None"))
audit.without(
    "no sign-in is named by an address that nobody verified", "name_in_claims", replaced("verified_email(...)", 'claims.get("email", "")')
)

entries = door("databroker.models", "unit/databroker/adminsite/test_audit.py")
entries.without("no entry is written over", "AuditEntry.save", never("self.pk is not None"))
entries.without(
    "no entries are written over",
    "AppendOnly.update",
    returns("super().update(**values)"),
)

together = door("databroker.end_sessions", "unit/databroker/test_end_sessions.py", "unit/authenticate/test_endings.py")
together.without("the weaker sessions of a browser end, too", "end_sessions", replaced("await earlier_of(broker, chosen)", "list[str]()"))
together.without(
    "an end that failed halfway can be asked for again",
    "end_sessions",
    replaced("([id for id in earlier if id not in chosen], chosen)", "(chosen, [id for id in earlier if id not in chosen])"),
)
at_the_provider = door("authenticate.session.provider_logout", "unit/authenticate/test_endings.py")
at_the_provider.without(
    "the provider's word ends what a session grew out of",
    "ProviderLogout._end",
    replaced("await end_sessions(self._broker, batch)", "[id for id in batch if await self._broker.delete('session', id)]"),
)
by_the_directory = door("authenticate.scim.access_records", "unit/authenticate/test_endings.py")
by_the_directory.without(
    "who is deactivated is out everywhere", "AccessRecords.end_sessions", replaced("await end_sessions_of_user(...)", "()")
)
refused = door("authenticate.session.refresh", "unit/authenticate/test_endings.py")
refused.without(
    "a session that is refused ends with what it grew out of",
    "SessionRefresh._ended",
    replaced("end_sessions(self._broker, [session.id])", 'self._broker.delete("session", session.id)'),
)

ending = door("databroker.adminsite.end_sessions", "unit/databroker/adminsite/test_end_sessions.py")
ending.without(
    "the log is written before a session ends",
    "EndSessionsAction._end",
    skips("record_actions(self.request, ENDS, ..., Session)"),
)
ending.without(
    "the log is written before a person's sessions end",
    "EndSessionsAction.end_all_sessions",
    skips("record_actions(self.request, ENDS_ALL, whom, User)"),
)
ending.without(
    "what could not be ended is told of", "EndSessionsAction._end", skips("record_actions(self.request, NOT_ENDED, ..., Session)")
)
ending.without(
    "the weaker sessions of a browser are told of, too",
    "EndSessionsAction._end",
    replaced("[*async_to_sync(earlier_of)(broker, chosen), *chosen]", "chosen"),
)
ending.without("an action has an end", "EndSessionsAction._is_over", never("self.clock() >= self._until"))

details = door("databroker.adminsite.details", "unit/databroker/adminsite/test_details.py", "integration/test_admin_secrets.py")
details.without("only named fields are shown", "session_facts", replaced("{name: data.get(name) for name in SHOWN_FIELDS}", "data"))
details.without("no claim that ties tokens together", "claims", always("name not in _HIDDEN_CLAIMS"))
details.without("no claim that repeats a token", "_shown", never("any((secret in text for secret in secrets))"))
details.without("no claim that says it is secret", "_shown", never("_SECRET_NAME.search(name)"))
details.without("no secret inside a claim", "_without_secrets", never("_SECRET_NAME.search(str(name))"))
details.without("no signed token as a claim", "_shown", never("_JWT.search(text)"))

rows = door("databroker.tables.rows", "integration/test_admin_secrets.py")
rows.without("no token reaches the tables", "add_session", in_text("user_agent", "access_token"))

shown_groups = door("databroker.claims", "unit/databroker/test_claims.py")
shown_groups.without("a claim is of one provider's people", "CountedWords._of", always("claim.provider == of"))
shown_groups.without(
    "what a list has besides is not forgotten", "_values", replaced("PartialValues(comparable)", "ListedValues(comparable)")
)
shown_groups.without("a claim of null is not missing", "_values", replaced("NullValues() if _is_nothing(value) else PartialValues()", "()"))
shown_groups.without("a claim that is kept elsewhere is not missing", "flattened", replaced("isinstance(elsewhere, Mapping)", "False"))
shown_groups.without("a name with a dot is no path", "_path_part", replaced('tail.replace("\\\\", r"\\\\").replace(".", r"\\.")', "tail"))
shown_groups.without(
    "a claim that is named without a backslash is not missing", "flattened", skips("flat.setdefault(unescaped(key), UnescapedValues())")
)
shown_groups.without("two claims of one path are in doubt", "flattened", always("key not in flat"))
shown_groups.without("a truth value is no group", "_is_group_id", replaced("isinstance(value, bool)", "False"))
shown_groups.without("another issuer's word makes nobody a member", "GroupsClaim.groups_of", always("is_issuer(...)"))

shown_rows = door("databroker.models", "unit/databroker/tables/test_rows.py")
shown_rows.without("rows of records are not deleted beside the broker", "ShownRecords.delete", returns("super().delete()"))
shown_rows.without("rows of records are not changed beside the broker", "ShownRecords.update", returns("super().update(**values)"))
shown_rows.without("a row of a record is not saved", "ShownRecord.save_base", returns("super().save_base(*arguments, **options)"))
table_check = door("databroker.tables.check", "integration/test_checkbroker.py")
table_check.without("rows that no record has are found", "TableCheck._compared", never("id not in ids"))
ended_by_command = door("gateproject.management.commands.endsessions", "integration/test_endsessions.py")
ended_by_command.without(
    "an ending by command is logged first", "_end", skips("await asyncio.to_thread(record_command, command_line_user(), action, id, model)")
)

policy_page = door("config.shown.policy_words", "unit/config/shown/test_policy_words.py")
policy_page.without("the values of headers stay out of the page", "_comparison", never('comparison.criterion == "http_header"'))

clocks = door("databroker.store.kvscripts", "contract/test_stores.py::test_whose_clock_is_ahead_ends_nothing_that_is_good_for_others")
clocks.without(
    "a clock that is ahead ends nothing in the kvstore",
    "_PRELUDE",
    in_text("math.min(tonumber(ours), tonumber(time[1]) + tonumber(time[2]) / 1000000", "tonumber(ours"),
)
database_clock = door(
    "databroker.store.database", "contract/test_stores.py::test_whose_clock_is_ahead_ends_nothing_that_is_good_for_others"
)
database_clock.without("a clock that is ahead ends nothing in the database", "_earlier", returns("ours"))
clock_watch = door("databroker.clock_skew", "unit/databroker/test_clock_skew.py")
clock_watch.without("a clock that differs is told", "ClockWatch.differs", never("abs(self.skew) > BORNE"))

silence = door("databroker.replica", "unit/databroker/test_replica.py")
silence.without(
    "what is served is counted from the last word",
    "Replica._follow",
    skips("self._was_right(asked)"),
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
    known_end,
    told_end,
    admin_site,
    password_login,
    read_only_admin,
    databroker_admin,
    audit,
    entries,
    ending,
    details,
    rows,
    shown_groups,
    shown_rows,
    table_check,
    ended_by_command,
)
