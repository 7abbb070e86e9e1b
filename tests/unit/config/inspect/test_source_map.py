"""Each value of a configuration has the place that it came from."""

import base64
import json
from pathlib import Path

import pytest
import yaml

from config.config_watcher import ConfigWatcher
from config.inspect.source_map import DEFAULT, SourceMap
from config.loader import check_configuration
from tests.support.options import MINIMAL, make_options

ROUTES = [{"from": f"https://{name}.example.com", "to": "http://127.0.0.1:1", "allowed_groups": ["x"]} for name in "ab"]


def lines_in(path: Path) -> list[str]:
    return path.read_text().splitlines()


@pytest.mark.parametrize("extension", ["yaml", "json"])
def test_a_value_of_the_file_has_its_line(tmp_path: Path, extension: str) -> None:
    path = tmp_path / f"config.{extension}"
    document = {**MINIMAL, "log_level": "warn", "policy": ROUTES}
    path.write_text(json.dumps(document, indent=2) if extension == "json" else yaml.safe_dump(document))
    places = check_configuration(path, {}).source_map
    file, _, line = places.setting_location("log_level").rpartition(":")
    assert file == str(path)
    assert "log_level" in lines_in(path)[int(line) - 1]
    first, second = (int(places.route_location(index, "allowed_groups").rpartition(":")[2]) for index in (0, 1))
    assert first < second
    assert all("allowed_groups" in lines_in(path)[line - 1] for line in (first, second))


def test_environment_overrides_file_and_unset_values_are_defaults(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump({**MINIMAL, "log_level": "warn", "cookie_domain": None}))
    places = check_configuration(path, {"LOG_LEVEL": "error"}).source_map
    assert places.setting_location("log_level") == "environment, LOG_LEVEL"
    assert places.setting_location("cookie_domain") == places.setting_location("cookie_expire") == DEFAULT


def test_routes_of_the_environment_and_routes_in_one_text_have_the_place_of_that(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    policy = base64.b64encode(yaml.safe_dump(ROUTES).encode()).decode()
    path.write_text(yaml.safe_dump(MINIMAL))
    assert check_configuration(path, {"POLICY": policy}).source_map.route_location(1, "to") == "environment, POLICY"
    path.write_text(yaml.safe_dump({**MINIMAL, "policy": ROUTES}))
    assert check_configuration(path, {"POLICY": policy}).source_map.route_location(1, "to") == "environment, POLICY"
    path.write_text(yaml.safe_dump({**MINIMAL, "policy": policy}))
    places = check_configuration(path, {}).source_map
    assert places.route_location(1, "to") == places.setting_location("policy") != DEFAULT


def test_source_map_has_locations_of_the_last_load(tmp_path: Path) -> None:
    make_options(tmp_path, policy=ROUTES)
    source = ConfigWatcher(tmp_path / "config.yaml", {})
    source.load()
    before = source.source_map
    make_options(tmp_path, log_level="warn", policy=ROUTES)
    source.load()
    assert (before.setting_location("log_level"), source.source_map.setting_location("log_level") == DEFAULT) == (DEFAULT, False)


def test_change_pending_restart_has_location_of_effective_value() -> None:
    before = SourceMap("old.yaml", {"address": 3})
    after = SourceMap("new.yaml", {"address": 5, "log_level": 6}).with_retained(["address", "workers"], before)
    assert [after.setting_location(key) for key in ("address", "workers", "log_level")] == ["old.yaml:3", DEFAULT, "new.yaml:6"]
