"""Defences of tracing: who leads a trace, how many may, and what is told of a request."""

from tests.mutants.mutant import door
from tests.mutants.operations import passes, replaced

spans = door("foundation.telemetry.tracing.spans", "unit/foundation/telemetry/tracing/test_spans.py")
spans.without("an error's words are not told", "Span.__exit__", replaced("kind.__name__", "str(error)"))

export = door("foundation.telemetry.tracing.export", "unit/foundation/telemetry/tracing/test_export.py")
export.without("spans are led nowhere else", "_post", passes(follow_redirects="True"))
export.without("a key in the URL is not logged", "exporter", replaced('f"{target.origin}{target.path}"', "url"))

DOORS = (spans, export)
