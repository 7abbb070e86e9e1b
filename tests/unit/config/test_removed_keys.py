"""A removed key is refused with its replacement."""

import pytest

from config import removed_keys
from config.options import Options
from tests.unit.config.conftest import Problems


@pytest.mark.parametrize("key", sorted(removed_keys.SETTINGS))
def test_a_removed_key_names_its_replacement(problems: Problems, key: str) -> None:
    assert problems(**{key: "x"}) == {key: removed_keys.SETTINGS[key]}
    assert problems({key.upper(): "x"}) == {key.upper(): f"{removed_keys.SETTINGS[key]} (in the environment)"}


def test_no_removed_key_is_a_setting() -> None:
    assert not removed_keys.SETTINGS.keys() & {*Options.attributes()}
