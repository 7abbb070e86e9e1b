"""Defences of tracing: who leads a trace, how many may, and what is told of a request."""

from tests.mutants.mutant import door
from tests.mutants.operations import always, never, passes, replaced

tracer = door("foundation.telemetry.tracing.tracer", "unit/foundation/telemetry/tracing/test_tracer.py")
tracer.without(
    "a stranger's trace is not joined",
    "Tracer.begin",
    replaced("parent_of(headers, reads_b3=self._speaks_b3) if is_trusted else None", "parent_of(headers, reads_b3=self._speaks_b3)"),
)
tracer.without("no more than so many traces are joined", "Tracer._keeps", always("self._may_join()"))

spans = door("foundation.telemetry.tracing.spans", "unit/foundation/telemetry/tracing/test_spans.py")
spans.without("an error's words are not told", "Span.__exit__", replaced("kind.__name__", "str(error)"))

export = door("foundation.telemetry.tracing.export", "unit/foundation/telemetry/tracing/test_export.py")
export.without("spans are led nowhere else", "_post", passes(follow_redirects="True"))
export.without("a collector proves who it is", "_post", never("tls"))
export.without("a key in the URL is not logged", "exporter", replaced('f"{target.origin}{target.path}"', "url"))

DOORS = (tracer, spans, export)
