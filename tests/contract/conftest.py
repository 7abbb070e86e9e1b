"""Providers for the contract that all of them keep: started once, because the real ones take seconds."""

from collections.abc import Iterator

import pytest
from django.core.handlers.asgi import ASGIHandler
from django.test import override_settings

from tests.support.authenticate_site import ORIGIN
from tests.support.certified_provider import CertifiedProvider
from tests.support.vendors import Emulators, emulators

CALLBACK = f"{ORIGIN}/oauth2/callback"


@pytest.fixture(scope="session")
def certified() -> Iterator[CertifiedProvider]:
    with CertifiedProvider(CALLBACK) as running:
        yield running


@pytest.fixture(scope="session")
def emulated() -> Iterator[Emulators]:
    with emulators(CALLBACK) as running:
        yield running


@pytest.fixture
def django_pages() -> Iterator[ASGIHandler]:
    with override_settings(ROOT_URLCONF="authenticate.urls", MIDDLEWARE=[], ALLOWED_HOSTS=["*"]):
        yield ASGIHandler()
