"""Defences of what lives: ended sessions stay ended, streams end with them, the admin is for administrators."""

from tests.mutants.mutant import door
from tests.mutants.operations import always, constant, in_text, never, replaced, returns, skips

replica = door("databroker.replica", "unit/databroker/test_replica.py")
replica.without(
    "a cached identity expires with its record",
    "Replica.version",
    replaced("cache.version(id, self._clock())", "cache.peek_version(id)"),
)
replica.without("a new service account is seen at once", "ABSENCE_NOT_CACHED", constant("frozenset({SESSION})"))

streams = door("proxy.planes.open_streams", "unit/proxy/planes/test_open_streams.py")
streams.without(
    "one stream's failure affects no other",
    "OpenStreams._schedule_revocation",
    replaced("asyncio.get_running_loop().call_soon(self._revoke, stream)", "self._revoke(stream)"),
)
streams.without(
    "one that can't be judged keeps no other waiting",
    "OpenStreams.run",
    replaced("(stream.needs_provider, stream in deferred)", "stream.needs_provider"),
)
streams.without(
    "an error in judging one stream lets no other go on",
    "OpenStreams.run",
    replaced('self._schedule_revocation((stream,), "re-authorization failed")', "raise"),
)

known_end = door("authorize.service", "contract/test_authorizers.py", "unit/authorize/test_service.py")
known_end.without(
    "access for a while ends when it was to end", "_decision_expiry", replaced("min(expires_at, period.expires_at)", "expires_at")
)
known_end.without(
    "a session ends whichever provider signed it in",
    "_decision_expiry",
    replaced("identity.is_provider_user", "identity.unqualified_subject"),
)
remote_authorizer = door("authorize.rpc.remote_authorizer", "contract/test_authorizers.py")
remote_authorizer.without("an end that another process knows is known", "_valid_until", returns("math.inf"))

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
admin_site.without("the admin is for administrators", "GateAdminSite.login", never("not may_administer(request, identity)"))
admin_site.without("the admin's next page is the admin's", "_target", always("is_inside"))

databroker_admin = door("databroker.admin.session_admin", "unit/databroker/admin/test_session_admin.py")
databroker_admin.without(
    "a session ends outside of a transaction",
    "SessionAdmin.delete_view",
    replaced("self._delete_view", "super().delete_view"),
)

audit = door("databroker.audit_log", "unit/databroker/test_audit_log.py", "unit/databroker/admin/test_session_admin.py")
audit.without("a failure is reported as a failure", "AuditLog.step", replaced("action.failure", "action"))
audit.without("nothing becomes a formula in a spreadsheet", "_escape_formula", replaced('_FORMULA.sub(r"\\1\'", text)', "text"))
audit.without("no text of an entry stops the others", "_build_entry", replaced("sanitize_text(text)", "text"))
audit.without(
    "no sign-in is named username an unverified address", "name_in_claims", replaced("verified_email(...)", 'claims.get("email", "")')
)

entries = door("databroker.models", "unit/databroker/test_audit_log.py")
entries.without(
    "no entries are written over",
    "AppendOnly.update",
    returns("super().update(**values)"),
)

together = door("databroker.end_sessions", "unit/databroker/test_end_sessions.py", "unit/authenticate/test_endings.py")
together.without(
    "the weaker sessions of a browser end, too", "end_sessions", replaced("await live_linked_session_ids(broker, chosen)", "list[str]()")
)
together.without(
    "an end that failed halfway can be asked for again",
    "end_sessions",
    replaced("([id for id in linked if id not in chosen], chosen)", "(chosen, [id for id in linked if id not in chosen])"),
)
at_the_provider = door("authenticate.session.provider_initiated_logout", "unit/authenticate/test_endings.py")
at_the_provider.without(
    "the provider's word ends what a session grew out of",
    "ProviderLogout._end",
    replaced("await end_sessions(self._broker, batch)", "[id for id in batch if await self._broker.delete('session', id)]"),
)
by_the_directory = door("authenticate.scim.directory_writer", "unit/authenticate/test_endings.py")
by_the_directory.without(
    "who is deactivated is out everywhere", "DirectoryWriter.end_sessions", replaced("await end_sessions_for_user(...)", "()")
)
refused = door("authenticate.session.session_refresh", "unit/authenticate/test_endings.py")
refused.without(
    "a session that is refused ends with what it grew out of",
    "SessionRefresh._end",
    replaced("end_sessions(self._broker, [session.id])", 'self._broker.delete("session", session.id)'),
)

ending = door("databroker.admin.end_sessions_action", "unit/databroker/admin/test_end_sessions_action.py")
ending.without(
    "the weaker sessions of a browser are recorded, too",
    "EndSessionsAction._end",
    replaced("[*async_to_sync(live_linked_session_ids)(broker, chosen), *chosen]", "chosen"),
)

details = door("databroker.admin.record_details", "unit/databroker/admin/test_record_details.py", "integration/test_admin_secrets.py")
details.without("only named fields are shown", "session_facts", replaced("{name: data.get(name) for name in DISCLOSED_FIELDS}", "data"))

rows = door("databroker.projection.rows", "integration/test_admin_secrets.py")
rows.without("no token reaches the tables", "add_session", in_text("user_agent", "access_token"))

claims = door("databroker.claims", "unit/databroker/test_claims.py")
claims.without("other entries of a list are kept", "_values", replaced("PartialValues(comparable)", "ListedValues(comparable)"))
claims.without("a claim of null is not missing", "_values", replaced("NullValues() if _is_empty(value) else PartialValues()", "()"))
claims.without("a name with a dot is no path", "_path_part", replaced('tail.replace("\\\\", r"\\\\").replace(".", r"\\.")', "tail"))

models = door("databroker.models", "unit/databroker/projection/test_rows.py")
models.without("rows of records are not deleted beside the broker", "ProjectionQuerySet.delete", returns("super().delete()"))
models.without("rows of records are not changed beside the broker", "ProjectionQuerySet.update", returns("super().update(**values)"))
models.without("a row of a record is not saved", "ProjectedRecord.save_base", returns("super().save_base(*arguments, **options)"))
table_check = door("databroker.projection.projection_verifier", "integration/test_checkbroker.py")
table_check.without("rows that no record has are found", "ProjectionVerifier._compare", never("id not in ids"))
ended_by_command = door("gateproject.management.commands.endsessions", "integration/test_endsessions.py")
ended_by_command.without(
    "an ending by command is logged first", "_end", skips("await asyncio.to_thread(record_command, command_line_user(), action, id, model)")
)

clocks = door("databroker.store.redis_scripts", "contract/test_stores.py::test_fast_clock_deletes_no_records_valid_for_others")
clocks.without(
    "a clock that is ahead ends nothing in the kvstore",
    "_PRELUDE",
    in_text("math.min(tonumber(local_time), tonumber(time[1]) + tonumber(time[2]) / 1000000", "tonumber(ours"),
)
database_clock = door("databroker.store.database", "contract/test_stores.py::test_fast_clock_deletes_no_records_valid_for_others")
database_clock.without("a clock that is ahead ends nothing in the database", "_earlier_time", returns("local_time"))
