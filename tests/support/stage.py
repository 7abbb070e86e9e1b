"""Fixtures of the environment of a gate: the identity provider and the upstreams, started once."""

from collections.abc import Iterator

import pytest

from tests.support.development_provider import DevelopmentProvider
from tests.support.upstream import SampleUpstream
from tests.support.websockets import SocketUpstream


@pytest.fixture(scope="session")
def provider() -> Iterator[DevelopmentProvider]:
    with DevelopmentProvider() as running:
        yield running


@pytest.fixture(scope="session")
def upstream() -> Iterator[SampleUpstream]:
    with SampleUpstream() as running:
        yield running


@pytest.fixture(scope="session")
def sockets() -> Iterator[SocketUpstream]:
    with SocketUpstream() as running:
        yield running
