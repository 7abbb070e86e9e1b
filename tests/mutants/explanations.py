"""Defences of what is told about decisions: shadow opens nothing, no secret is written down, only administrators read it."""

from tests.mutants.mutant import door

shadow_table = door("authorize/policy/route_table.py", "unit/authorize/decisions/test_shadow.py")
shadow_table.without("a route in shadow decides nothing", "if route.mode == SHADOW and not with_shadow:", "if False:")

shadow_blocks = door("authorize/policy/compiled_route.py", "unit/authorize/decisions/test_shadow.py")
shadow_blocks.without("a block in shadow decides nothing", "if with_shadow or block.mode == ENFORCE]", "]")

facts = door("authorize/decisions/recorded_facts.py", "unit/authorize/decisions/test_recorded_facts.py")
facts.without(
    "a header that is a secret is not written down", "is_secret_header(name) or len(value) > LONGEST_TEXT", "len(value) > LONGEST_TEXT"
)
facts.without(
    "a claim that no rule names is not written down", "for name in looked.claims & identity.claims.keys()}", "for name in identity.claims}"
)
facts.without(
    "a header that no rule names does not wait in memory",
    " for name, value in request.headers if name in looked.headers)",
    " for name, value in request.headers)",
)

log = door("authorize/decisions/log.py", "unit/authorize/decisions/test_log.py")
log.without("a flood of refusals is bounded in memory", "if len(self._waiting) >= self._most_waiting:", "if False:")
log.without(
    "each refusal is kept",
    "if decision is None or refused_token or decision.outcome not in _SAMPLED or decision.route is None:",
    "if False:",
)

rows = door("authorize/decisions/rows.py", "unit/authorize/decisions/test_rows.py")
rows.without("the table is bounded", '            _clear(entries[-1][1], rows[-1]["at"])\n', "")

recorder = door("authorize/decisions/recorder.py", "unit/authorize/decisions/test_recorder.py")
recorder.without("a stream that is judged anew is no request", "        if not request_id:\n", "        if False:\n")
recorder.without("who is refused was not seen", "            if check.decision.is_allowed:\n", "            if True:\n")

last_seen = door("databroker/tables/rows.py", "unit/databroker/tables/test_rows.py")
last_seen.without("a later moment is not overwritten", "({names[0]} IS NULL OR {names[0]} < %s)", "%s IS NOT NULL")

admin = door("authorize/admin.py", "unit/authorize/test_admin.py")
admin.without("only administrators get explanations as JSON", "if not self.admin_site.has_permission(request):", "if False:")
admin.without("only administrators get explanations as pages", "self.admin_site.admin_view(self.explain_view)", "self.explain_view")

replay = door("authorize/explain/replay.py", "unit/authorize/explain/test_replay.py")
replay.without("what was not written down is not guessed", "if missing := missing_for(route.route, request, person):", "if missing := '':")

refusals = door("proxy/answers/refusals.py", "unit/proxy/answers/test_refusals.py")
refusals.without(
    "only administrators are led to explanations", "if identity is None or not self._authorize.may_administer(identity):", "if False:"
)

DOORS = (shadow_table, shadow_blocks, facts, log, rows, recorder, last_seen, admin, replay, refusals)
