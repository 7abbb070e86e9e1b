"""The product under attack, started once for all samples."""

from collections.abc import Iterator

import pytest

from tests.attack.target import Target


@pytest.fixture(scope="session")
def target() -> Iterator[Target]:
    with Target.start() as running:
        yield running
