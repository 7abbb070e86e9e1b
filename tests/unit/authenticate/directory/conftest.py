"""Directories on loopback, each with what reads it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support.directory_stage import Stage
from tests.support.fake_directories import FakeDirectory

Staged = Callable[..., Awaitable[Any]]


@pytest.fixture
async def staged(tmp_path: Path) -> AsyncIterator[Staged]:
    """`await staged("okta", idp_qps=10)`"""
    async with AsyncExitStack() as stack:

        async def make(provider: str, **settings: Any) -> Stage:
            directory = await stack.enter_async_context(FakeDirectory.for_kind(provider))
            stage = Stage(directory, tmp_path, **settings)
            stack.push_async_callback(stage.source.close)
            return stage

        yield make
