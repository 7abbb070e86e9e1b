"""A tracer whose spans are recorded, with randomness and time controlled by the test."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from opentelemetry.sdk.trace import ReadableSpan

from foundation.telemetry.tracing import tracer
from foundation.telemetry.tracing.export import Exporter
from foundation.telemetry.tracing.tracer import Tracer
from tests.support.options import make_options


class SpanRecorder:
    def __init__(self, directory: Path, **settings: object):
        self.now, self.chance, self.draws = 0.0, 0.5, 0
        self.spans: list[ReadableSpan] = []
        chosen = {"tracing_provider": "span", "tracing_span_endpoint": "http://127.0.0.1:9/", "tracing_sample_rate": 1, **settings}
        self.tracer = Tracer(make_options(directory, **chosen), clock=lambda: self.now, random_value=self._chance)
        self.tracer._exporter = Exporter(self.spans.extend, "memory")
        self.tracer.start()

    def _chance(self) -> float:
        self.draws += 1
        return self.chance

    def ended(self) -> list[ReadableSpan]:
        self.tracer._provider.force_flush()
        return self.spans

    @contextmanager
    def installed(self) -> Iterator[None]:
        tracer.set_tracer(self.tracer)
        try:
            yield
        finally:
            tracer.set_tracer(None)
