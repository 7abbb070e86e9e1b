"""Defences of what is told about decisions: shadow opens nothing, no secret is written down, only administrators read it."""

from tests.mutants.mutant import door
from tests.mutants.operations import always, lacks, never, replaced, skips

shadow_table = door("authorize.policy.route_table", "unit/authorize/decision_log/test_shadow.py")
shadow_table.without("a route in shadow decides nothing", "RouteTable.build", always("route.mode != SHADOW or with_shadow"))

shadow_blocks = door("authorize.policy.compiled_route", "unit/authorize/decision_log/test_shadow.py")
shadow_blocks.without("a block in shadow decides nothing", "compile_route", always("with_shadow or block.mode == ENFORCE"))

facts = door("authorize.decision_log.recorded_facts", "unit/authorize/decision_log/test_recorded_facts.py")
facts.without("a header that is a secret is not written down", "request_facts", never("is_secret_header(name)"))
facts.without("a header that has the value of a rule is not written down", "request_facts", never("_passes(name, value, looked)"))
facts.without(
    "a claim that no rule names is not written down",
    "identity_facts",
    replaced("looked.claims & identity.claims.keys()", "identity.claims"),
)
facts.without("what can't be compared is written down", "identity_facts", lacks('"claim_kinds"'))
facts.without("groups that are not told are written down as such", "identity_facts", lacks('"untold_groups"'))
facts.without(
    "a header that no rule names does not wait in memory",
    "bounded",
    always("name in looked.headers"),
)

log = door("authorize.decision_log.log", "unit/authorize/decision_log/test_log.py")
log.without("a flood of refusals is bounded in memory", "DecisionLog.keep", never("len(self._waiting) >= self._most_waiting"))
log.without(
    "each refusal is kept",
    "DecisionLog.keeps",
    never("decision is None or refused_token or decision.outcome not in _SAMPLED or decision.route is None"),
)

rows = door("authorize.decision_log.rows", "unit/authorize/decision_log/test_rows.py")
rows.without("the table is bounded", "write", skips('_clear(entries[-1][1], rows[-1]["at"])'))

recorder = door("authorize.decision_log.recorder", "unit/authorize/decision_log/test_recorder.py")
recorder.without("a stream that is judged anew is no request", "DecisionRecorder.check", never("not request_id"))
recorder.without("who is refused was not seen", "DecisionRecorder.check", always("check.decision.is_allowed"))

last_seen = door("databroker.tables.rows", "unit/databroker/tables/test_rows.py")
last_seen.without(
    "a later moment is not overwritten", "_write_seen", replaced('f"({names[0]} IS NULL OR {names[0]} <= %s)"', 'f"%s IS NOT NULL"')
)

admin = door("authorize.admin", "unit/authorize/test_admin.py")
admin.without(
    "only administrators get explanations as JSON", "DecisionAdmin.explain_json", never("not self.admin_site.has_permission(request)")
)
admin.without(
    "only administrators get explanations as pages",
    "DecisionAdmin.get_urls",
    replaced("self.admin_site.admin_view(self.explain_view)", "self.explain_view"),
)

words = door("authorize.timeline.words", "unit/authorize/timeline/test_words.py")
words.without("a search looks through the newest alone", "newest", always("oldest is None"))
words.without("a search has few words", "with_words", replaced("text.replace('\\x00', '').split()[:MOST_WORDS]", "text.split()"))
filters = door("authorize.timeline.filters", "unit/authorize/timeline/test_filters.py")
filters.without("what can't be asked finds nothing", "TimelineFilters.rows", never("self.problems"))
zones = door("authorize.timeline.zone", "unit/authorize/timeline/test_zone.py")
zones.without("what somebody writes is no file of zones", "zone_of", always("wanted in _known()"))

admin.without(
    "only administrators replay",
    "DecisionAdmin.get_urls",
    replaced("self.admin_site.admin_view(self.replay_view)", "self.replay_view"),
)

replay = door("authorize.explain.replay", "unit/authorize/explain/test_replay.py")
replay.without("what was not written down is not guessed", "_replay", replaced("missing_for(route.route, request, person)", "''"))

bounded = door("authorize.explain.bounded_replay", "unit/authorize/explain/test_bounded_replay.py")
bounded.without("a replay ends by number", "_replayed", never("done.looked == MOST"))
bounded.without("a replay ends in time", "_replayed", never("now() >= ends"))
bounded.without("a replay rests", "_replayed", skips("rest(REST)"))
bounded.without("one replay is under way", "replay_newest", never("not _one_at_a_time.acquire(blocking=False)"))

recorded = door("authorize.explain.recorded_user", "unit/authorize/explain/test_recorded_user.py")
recorded.without("of several users none is chosen", "recorded_user", never("len(...) > 1"))
recorded.without("another user's session is no session of this one", "_sessions", always('record.data.get("user_id") in ids'))
recorded.without("a deactivated user is refused", "_as_of_sign_in", never("isinstance(identity, RefusedToken)"))

refusals = door("proxy.answers.refusals", "unit/proxy/answers/test_refusals.py")
refusals.without(
    "only administrators are led to explanations",
    "Refusals._links_for",
    never("identity is None or not self._authorize.may_administer(identity)"),
)

DOORS = (
    shadow_table,
    shadow_blocks,
    facts,
    log,
    rows,
    recorder,
    last_seen,
    admin,
    words,
    filters,
    zones,
    replay,
    bounded,
    recorded,
    refusals,
)
