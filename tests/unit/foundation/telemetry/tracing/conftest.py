from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.span_recorder import SpanRecorder


@pytest.fixture
def record_spans(tmp_path: Path) -> Iterator[Callable[..., SpanRecorder]]:
    made: list[SpanRecorder] = []

    def make(**settings: object) -> SpanRecorder:
        made.append(SpanRecorder(tmp_path, **settings))
        return made[-1]

    yield make
    for each in made:
        each.tracer.stop()
