"""A site whose API a service account may use without restriction."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from django.core.handlers.asgi import ASGIHandler

from tests.support.api_site import ApiSite
from tests.support.authenticate_site import Site
from tests.support.fake_idp import FakeIdP


@pytest.fixture
async def api(tmp_path: Path, idp: FakeIdP, django_pages: ASGIHandler, database: None) -> AsyncIterator[ApiSite]:
    async with ApiSite.running(Site(tmp_path, idp, django_pages)) as api:
        yield api
