"""What the other parts of the product get from the authenticate service."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.core.handlers.asgi import ASGIHandler
from structlog.testing import capture_logs

from authenticate.service import SIGN_IN_PATH
from tests.support.authenticate_site import HOST, ORIGIN, Site
from tests.support.eventually import eventually
from tests.support.fake_idp import FakeIdP
from tests.support.several_providers import SeveralSite


async def test_a_state_is_spent_once(site: Site) -> None:
    answers = await asyncio.gather(*(site.service.spend_state("x") for _ in range(20)))
    assert sorted(answers) == [False] * 19 + [True]
    assert await site.service.spend_state("y")


@pytest.mark.parametrize("site_of", [lambda path, idp, pages: SeveralSite(path, {"corp": idp}, pages), Site], ids=["an entry", "keys"])
async def test_a_code_is_spent_once_also_where_one_provider_is_left(
    tmp_path: Path, idp: FakeIdP, django_pages: ASGIHandler, site_of: Callable[..., Site]
) -> None:
    """Another that has seen it may have been configured a moment ago."""
    service = site_of(tmp_path, idp, django_pages).service
    answers = await asyncio.gather(*(service.spend_code(code) for code in ("abcdef", "ABCDEF", "abcdef ", "abcdef=") * 5))
    assert sorted(answers) == [False] * 19 + [True]
    assert await service.spend_code("abcdxx")


async def test_a_page_of_ours_can_ask_for_sign_in(site: Site) -> None:
    url = site.service.sign_in_url_for("/.gate/admin/")
    assert url.startswith(f"{ORIGIN}{SIGN_IN_PATH}?")
    assert site.service.signer.verify(url, site.clock()) == {"gate_redirect_uri": f"{ORIGIN}/.gate/admin/"}
    assert urlsplit(url).netloc == HOST


async def test_a_sign_in_under_way_ends_well_while_a_new_configuration_takes_over(site: Site) -> None:
    stopping = asyncio.create_task(site.service.stop(grace=30))
    await asyncio.sleep(0)
    answer = await site.browser().sign_in()
    stopping.cancel()
    assert answer.location.startswith("https://app.example.com/.gate/callback/")


async def test_a_provider_that_can_not_be_used_is_told_at_the_start_and_stops_nothing(
    tmp_path: Path, idp: FakeIdP, django_pages: ASGIHandler
) -> None:
    idp.bend.discovery["issuer"] = "https://another.example"
    site = Site(tmp_path, idp, django_pages)
    with capture_logs() as logged:
        await site.service.start()
        await eventually(lambda: any("identity provider unavailable" in entry["event"] for entry in logged))
    told = next(entry for entry in logged if entry["event"] == "identity provider unavailable")
    assert (told["log_level"], "issuer is 'https://another.example'" in told["reason"]) == ("warning", True)
    idp.bend.discovery.clear()
    assert (await site.browser().sign_in("alice")).status == 302
    await site.service.stop()
