"""Defences of what is told about decisions: shadow opens nothing, no secret is written down, only administrators read it."""

from tests.mutants.mutant import door
from tests.mutants.operations import lacks, replaced

facts = door("authorize.decision_log.recorded_facts", "unit/authorize/decision_log/test_recorded_facts.py")
facts.without(
    "a claim that no rule names is not written down",
    "identity_facts",
    replaced("looked.claims & identity.claims.keys()", "identity.claims"),
)
facts.without("what can't be compared is written down", "identity_facts", lacks('"claim_kinds"'))
facts.without("groups that are not told are written down as such", "identity_facts", lacks('"untold_groups"'))

last_seen = door("databroker.tables.rows", "unit/databroker/tables/test_rows.py")
last_seen.without(
    "a later moment is not overwritten", "_write_seen", replaced('f"({names[0]} IS NULL OR {names[0]} <= %s)"', 'f"%s IS NOT NULL"')
)

admin = door("authorize.admin", "unit/authorize/test_admin.py")
admin.without(
    "only administrators get explanations as pages",
    "DecisionAdmin.get_urls",
    replaced("self.admin_site.admin_view(self.explain_view)", "self.explain_view"),
)

words = door("authorize.timeline.words", "unit/authorize/timeline/test_words.py")
words.without("a search has few words", "with_words", replaced("text.replace('\\x00', '').split()[:MOST_WORDS]", "text.split()"))

admin.without(
    "only administrators replay",
    "DecisionAdmin.get_urls",
    replaced("self.admin_site.admin_view(self.replay_view)", "self.replay_view"),
)

replay = door("authorize.explain.replay", "unit/authorize/explain/test_replay.py")
replay.without("what was not written down is not guessed", "_replay", replaced("missing_for(route.route, request, person)", "''"))

DOORS = (facts, last_seen, admin, words, replay)
