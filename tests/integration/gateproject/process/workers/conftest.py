"""A gate of two processes, which a test may kill."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.children import free_port
from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import GateBuilder, RunningGate
from tests.support.upstream import SampleUpstream
from tests.support.workers import WORKERS


@pytest.fixture
def metrics_port() -> int:
    return free_port()


@pytest.fixture
def gate(provider: DevelopmentProvider, upstream: SampleUpstream, tmp_path: Path, metrics_port: int) -> Iterator[RunningGate]:
    builder = (
        GateBuilder(provider.url)
        .route("app.localhost", to=upstream.url, allow_any_authenticated_user=True, pass_identity_headers=True)
        .setting(workers=WORKERS, groups_claim="groups", admin_allowed_users=["alice@example.com"])
        .setting(metrics_address=f"127.0.0.1:{metrics_port}")
    )
    with builder.start(tmp_path) as running:
        running.wait_for_event("gate is ready")
        yield running
