"""A removed key is refused with its replacement."""

import pytest

from config import removed
from config.options import Options
from tests.unit.config.conftest import Problems


@pytest.mark.parametrize("key", sorted(removed.SETTINGS))
def test_a_removed_key_names_its_replacement(problems: Problems, key: str) -> None:
    assert problems(**{key: "x"}) == {key: removed.SETTINGS[key]}
    assert problems({key.upper(): "x"}) == {key.upper(): f"{removed.SETTINGS[key]} (in the environment)"}


def test_no_removed_key_is_a_setting() -> None:
    assert not removed.SETTINGS.keys() & {*Options.attributes()}
