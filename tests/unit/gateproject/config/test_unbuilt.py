"""What is specified but not built is never silently ignored."""

import pytest

from gateproject.config import unbuilt
from gateproject.config.options import Options
from gateproject.config.route import Route
from tests.unit.gateproject.config.conftest import Problems

MESSAGE = "is specified but not available in this release"


@pytest.mark.parametrize("key", unbuilt.SETTINGS)
def test_an_unbuilt_setting_is_refused_in_file_and_environment(problems: Problems, key: str) -> None:
    assert problems(**{key: "x"}) == {key: MESSAGE}
    assert problems({key.upper(): "x"}) == {key.upper(): f"{MESSAGE} (in the environment)"}


@pytest.mark.parametrize("key", unbuilt.ROUTE_KEYS)
def test_an_unbuilt_route_key_is_refused(route_problems: Problems, key: str) -> None:
    assert route_problems(**{key: "x"}) == {key: MESSAGE}


def test_what_is_built_is_not_in_the_lists() -> None:
    assert not set(unbuilt.SETTINGS) & set(Options.attributes())
    assert not set(unbuilt.ROUTE_KEYS) & set(Route.attributes())
