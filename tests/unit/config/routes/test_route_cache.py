"""Routes that are reused from one load to the next."""

import random
from datetime import date
from pathlib import Path

import pytest
import yaml

from config.loader import check_configuration
from config.routes.route import Route
from config.routes.route_cache import RouteCache, new_routes
from tests.support.options import MINIMAL

WRITTEN = {"from": "https://a.example.com", "to": "http://127.0.0.1:1"}
# Lines of a configuration file: valid and invalid settings, routes and parts of routes.
LINES = (
    *("  timeout: 30s\n", "  timeout: 3x\n", "  prefix: /a\n", "  allow_websockets: 1\n", "  allow_websockets: true\n", "  nam: x\n"),
    *("- from: https://new.example.com\n  to: http://127.0.0.1:1\n", "- from: https://new.example.com\n", "- text\n", "-\n", "# comment\n"),
    *(
        "  x: &x 1\n",
        "  y: *x\n",
        "  <<: {timeout: 5s}\n",
        "policy: []\n",
        "log_level: warn\n",
        "\t\n",
        "]\n",
        "  to: http://127.0.0.1:2\n",
    ),
)


def test_a_route_is_known_in_the_next_reading_and_forgotten_after_one_without_it() -> None:
    known, route = RouteCache(), Route.model_validate(WRITTEN)
    known.start_generation()
    assert known.find(WRITTEN) is None
    known.add(WRITTEN, route)
    known.start_generation()
    assert known.find(dict(WRITTEN)) is route
    known.start_generation()
    known.start_generation()
    assert known.find(WRITTEN) is None


def test_adjacent_routes_are_distinct_objects_regardless_of_content() -> None:
    first, again = Route.model_validate(WRITTEN), Route.model_validate(WRITTEN)
    assert new_routes([again, first, first], [first]) == [(0, again)]
    assert new_routes([], [first]) == []


def test_true_is_not_one() -> None:
    known, route = RouteCache(), Route.model_validate({**WRITTEN, "allow_websockets": True})
    known.start_generation()
    known.add({**WRITTEN, "allow_websockets": True}, route)
    known.start_generation()
    assert {"allow_websockets": True} == {"allow_websockets": 1}
    assert known.find({**WRITTEN, "allow_websockets": 1}) is None


def test_equal_texts_are_equal_and_toml_dates_are_supported() -> None:
    known, route = RouteCache(), Route.model_validate(WRITTEN)
    written = {**WRITTEN, "name": date(2026, 1, 2), "allowed_users": ["ann", "ann"]}
    again = {
        "".join(key): value
        for key, value in {**written, "name": date(2026, 1, 2), "allowed_users": ["".join("ann"), "an" + "n"[:]]}.items()
    }
    for first, second in ((written, again), ({**written, "name": "a"}, {**again, "name": "".join(["a"])})):
        known.start_generation()
        known.add(first, route)
        known.start_generation()
        assert known.find(second) is route


@pytest.mark.parametrize("seed", range(3))
def test_incremental_parse_after_any_edit_matches_a_full_parse(tmp_path: Path, seed: int) -> None:
    chance, path, known = random.Random(seed), tmp_path / "config.yaml", RouteCache()
    settings = yaml.safe_dump({**MINIMAL, "data_dir": "/data"})
    routes = "".join(
        f"- from: https://app{each}.example.com\n  to: http://127.0.0.1:80\n  allowed_users: [a{each}@example.com]\n" for each in range(6)
    )
    valid = lines = routes.splitlines(keepends=True)
    for _ in range(60):
        path.write_text(settings + "policy:\n" + "".join(lines))
        checked, whole = check_configuration(path, {}, (), known), check_configuration(path, {})
        assert checked == whole
        assert repr(checked.options) == repr(whole.options)  # repr distinguishes 1 from True
        valid = lines if checked.options is not None else valid
        place = chance.randrange(len(valid))
        lines = [*valid[:place], *chance.choice([(), (chance.choice(LINES),)]), *valid[place + chance.randrange(2) :]]
