import asyncio
from pathlib import Path

from django.core.handlers.asgi import ASGIHandler
from structlog.testing import capture_logs

from tests.support.authenticate_site import Site
from tests.support.eventually import eventually
from tests.support.fake_idp import FakeIdP


async def test_a_sign_in_under_way_ends_well_while_a_new_configuration_takes_over(site: Site) -> None:
    stopping = asyncio.create_task(site.service.stop(grace=30))
    await asyncio.sleep(0)
    answer = await site.browser().sign_in()
    stopping.cancel()
    assert answer.location.startswith("https://app.example.com/.gate/callback/")


async def test_unusable_provider_is_reported_at_start_and_blocks_nothing(tmp_path: Path, idp: FakeIdP, django_pages: ASGIHandler) -> None:
    idp.bend.discovery["issuer"] = "https://another.example"
    site = Site(tmp_path, idp, django_pages)
    with capture_logs() as logged:
        await site.service.start()
        await eventually(lambda: any("identity provider unavailable" in entry["event"] for entry in logged))
    logged_entry = next(entry for entry in logged if entry["event"] == "identity provider unavailable")
    assert (logged_entry["log_level"], "issuer is 'https://another.example'" in logged_entry["reason"]) == ("warning", True)
    idp.bend.discovery.clear()
    assert (await site.browser().sign_in("alice")).status == 302
    await site.service.stop()
