from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.kept_spans import KeptSpans


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Callable[..., KeptSpans]]:
    made: list[KeptSpans] = []

    def make(**settings: object) -> KeptSpans:
        made.append(KeptSpans(tmp_path, **settings))
        return made[-1]

    yield make
    for each in made:
        each.tracer.stop()
