import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.handlers.asgi import ASGIHandler

from tests.support.authenticate_site import Site
from tests.support.fake_idp import FakeIdP
from tests.support.several_providers import SeveralSite


async def test_accepts_state_once(site: Site) -> None:
    accepted = await asyncio.gather(*(site.service.replay_guard.consume_state("x") for _ in range(20)))
    assert sorted(accepted) == [False] * 19 + [True]
    assert await site.service.replay_guard.consume_state("y")


@pytest.mark.parametrize("site_of", [lambda path, idp, pages: SeveralSite(path, {"corp": idp}, pages), Site], ids=["an entry", "keys"])
async def test_accepts_code_once_with_one_or_several_providers(
    tmp_path: Path, idp: FakeIdP, django_pages: ASGIHandler, site_of: Callable[..., Site]
) -> None:
    guard = site_of(tmp_path, idp, django_pages).service.replay_guard
    accepted = await asyncio.gather(*(guard.consume_code(code) for code in ("abcdef", "ABCDEF", "abcdef ", "abcdef=") * 5))
    assert sorted(accepted) == [False] * 19 + [True]
    assert await guard.consume_code("abcdxx")
