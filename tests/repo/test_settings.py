"""Every setting is declared once, with all that its reader needs to know."""

import pytest

from gateproject.config.reference import Key, keys, route_keys, settings
from gateproject.config.route import Redirect
from gateproject.config.shared import CertificateFiles

ALL_SETTINGS = [key for group in settings().values() for key in group]
ALL_KEYS = [*ALL_SETTINGS, *route_keys(), *keys(Redirect), *keys(CertificateFiles)]


@pytest.mark.parametrize("key", ALL_KEYS, ids=lambda key: f"{key.owner.__name__}.{key.name}")
def test_every_key_says_what_it_means_how_it_is_written_and_gives_an_example(key: Key) -> None:
    assert key.reader is not None or key.model is not None, "its type needs a Reader (gateproject/config/fields.py)"
    assert key.field.description, "Field(description=...)"
    assert key.field.description.endswith("."), "a description is a sentence"
    assert key.field.examples, "Field(examples=[...])"


def test_every_key_is_declared_once() -> None:
    for group in (ALL_SETTINGS, route_keys()):
        names = [key.name for key in group]
        assert sorted(names) == sorted(set(names))
