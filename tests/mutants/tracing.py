"""Defences of tracing: who leads a trace, how many may, and what is told of a request."""

from tests.mutants.mutant import door

tracer = door("foundation/telemetry/tracing/tracer.py", "unit/foundation/telemetry/tracing/test_tracer.py")
tracer.without(
    "a stranger's trace is not joined",
    "parent = parent_of(headers, reads_b3=self._speaks_b3) if is_trusted else None",
    "parent = parent_of(headers, reads_b3=self._speaks_b3)",
)
tracer.without("no more than so many traces are joined", "return parent.is_sampled and self._may_join()", "return parent.is_sampled")

spans = door("foundation/telemetry/tracing/spans.py", "unit/foundation/telemetry/tracing/test_spans.py")
spans.without("an error's words are not told", "self.fail(kind.__name__)", "self.fail(str(error))")

export = door("foundation/telemetry/tracing/export.py", "unit/foundation/telemetry/tracing/test_export.py")
export.without("spans are led nowhere else", "follow_redirects=False", "follow_redirects=True")
export.without("a collector proves who it is", "verify=tls or False", "verify=False")
export.without("a key in the URL is not logged", 'f"{target.origin}{target.path}")', "url)")

DOORS = (tracer, spans, export)
