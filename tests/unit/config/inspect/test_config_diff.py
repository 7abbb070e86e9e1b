"""Changes between two configurations, by setting and route, without secrets."""

import random
from pathlib import Path
from typing import Any

import pytest

from config.config_watcher import ConfigWatcher
from config.inspect.config_diff import ADDED, CHANGED, CONTENT, REMOVED, UNSEEN, ConfigSnapshot, ValueChange, diff_configs
from config.inspect.source_map import SourceMap
from tests.support.options import make_options


class Versions:
    def __init__(self, directory: Path):
        self._directory = directory
        self._source = ConfigWatcher(directory / "config.yaml", {})

    def change(self, *versions: dict[str, Any]) -> list[ValueChange]:
        """Changes between the last two."""
        loaded = []
        for settings in versions:
            make_options(self._directory, **settings)
            loaded.append(ConfigSnapshot(self._source.load(), self._source.source_map))
        return [change() for change in diff_configs(loaded[-2], loaded[-1])]


def route(name: str, **keys: Any) -> dict[str, Any]:
    return {"from": f"https://{name}.example.com", "to": "http://127.0.0.1:1", "name": name, "allowed_groups": ["x"], **keys}


def test_unchanged_reload_changes_nothing(tmp_path: Path) -> None:
    same = {"policy": [route("a"), route("b")], "log_level": "warn"}
    assert Versions(tmp_path).change(same, same) == []


def test_settings_are_reported_with_both_values_and_location(tmp_path: Path) -> None:
    found = Versions(tmp_path).change({"cookie_expire": "1h", "cookie_domain": "example.com"}, {"cookie_expire": "2h", "log_level": "warn"})
    changes = {change.key: (change.kind, change.before, change.after) for change in found}
    assert changes == {
        "cookie_expire": (CHANGED, "1h", "2h"),
        "cookie_domain": (REMOVED, "example.com", ""),
        "log_level": (CHANGED, "info", "warn"),
        "proxy_log_level": (CHANGED, "info", "warn"),
    }
    places = {change.key: change.location for change in found}
    assert places["cookie_expire"].startswith(f"{tmp_path / 'config.yaml'}:")
    assert places["cookie_domain"] == "default"


def test_new_secret_is_reported_without_either_value(tmp_path: Path) -> None:
    (found,) = Versions(tmp_path).change({"idp_client_secret": "hunter2"}, {"idp_client_secret": "hunter3"})
    assert (found.key, found.note) == ("idp_client_secret", UNSEEN)
    assert "hunter" not in str(found)


def test_changed_content_of_same_file_is_reported(tmp_path: Path) -> None:
    versions, settings = Versions(tmp_path), {"policy": [route("a", cluster_service_account_token_file="token")]}
    (tmp_path / "token").write_text("hunter2")
    make_options(tmp_path, **settings)
    before = ConfigSnapshot(versions._source.load(), versions._source.source_map)
    (tmp_path / "token").write_text("hunter3")
    found = [changes() for changes in diff_configs(before, ConfigSnapshot(versions._source.load(), versions._source.source_map))]
    notes = {change.key: change.note for change in found}
    assert notes["policy[0] a: cluster_service_account_token_file"] == CONTENT
    assert "hunter" not in str(found)


def test_added_removed_and_changed_routes_are_reported(tmp_path: Path) -> None:
    before = [route("a"), route("b"), route("gone")]
    after = [route("a", allowed_groups=["y"]), route("new"), route("b")]
    found = {change.key: change for change in Versions(tmp_path).change({"policy": before}, {"policy": after})}
    assert set(found) == {"policy[0] a: allowed_groups", "policy[2] gone", "policy[1] new"}
    changed = found["policy[0] a: allowed_groups"]
    assert (changed.kind, changed.before, changed.after) == (CHANGED, "[x]", "[y]")
    assert (found["policy[2] gone"].kind, found["policy[1] new"].kind) == (REMOVED, ADDED)
    assert "https://gone.example.com" in found["policy[2] gone"].before
    assert "https://new.example.com" in found["policy[1] new"].after


def test_a_route_that_moves_elsewhere_stays_the_same_route(tmp_path: Path) -> None:
    before, after = [route("a", prefix="/x")], [route("a", prefix="/y")]
    (found,) = Versions(tmp_path).change({"policy": before}, {"policy": after})
    assert (found.key, found.before, found.after) == ("policy[0] a: prefix", "/x", "/y")
    (found,) = Versions(tmp_path).change({"policy": [route("a", timeout="5s")]}, {"policy": [route("a")]})
    assert (found.key, found.kind, found.before, found.after) == ("policy[0] a: timeout", REMOVED, "5s", "")


def test_terms_and_locations_are_found_for_reported_changes(tmp_path: Path) -> None:
    """A reload that changes ten thousand routes shows the first of them, and waits for no more."""

    class Lines(list[dict[str, int]]):
        def __getitem__(self, index: Any) -> Any:
            looked_at.append(index)
            return super().__getitem__(index)

    looked_at: list[int] = []
    before, after = (make_options(tmp_path, policy=[route(f"r{n}", allowed_groups=[group]) for n in range(9)]) for group in "xy")
    found = list(
        diff_configs(
            ConfigSnapshot(before, SourceMap()), ConfigSnapshot(after, SourceMap("file", routes=Lines([{"allowed_groups": 7}] * 9)))
        )
    )
    assert (len(found), looked_at) == (9, [])
    assert (found[3]().location, set(looked_at)) == ("file:7", {3})


def test_route_order_change_is_reported_because_first_match_decides(tmp_path: Path) -> None:
    (found,) = Versions(tmp_path).change({"policy": [route("a"), route("b")]}, {"policy": [route("b"), route("a")]})
    assert (found.key, found.kind) == ("policy", CHANGED)
    assert "order" in found.note
    assert Versions(tmp_path).change({"policy": [route("a"), route("b")]}, {"policy": [route("b")]})[0].kind == REMOVED


def test_routes_matching_the_same_are_distinguished_by_order(tmp_path: Path) -> None:
    duplicates = [route("a"), route("a", allowed_groups=["z"])]
    (found,) = Versions(tmp_path).change({"policy": duplicates}, {"policy": duplicates[:1]})
    assert (found.key, found.kind) == ("policy[1] a", REMOVED)
    assert "allowed_groups: [z]" in found.before


def test_of_routes_that_match_the_same_the_one_that_was_taken_over_is_itself(tmp_path: Path) -> None:
    duplicates = [route("a"), route("a", allowed_groups=["z"])]
    (found,) = Versions(tmp_path).change({"policy": duplicates}, {"policy": duplicates[1:]})
    assert (found.key, found.kind) == ("policy[0] a", REMOVED)
    assert "allowed_groups: [x]" in found.before


@pytest.mark.parametrize("seed", range(5))
def test_reused_routes_give_the_same_diff_as_a_full_reload(tmp_path: Path, seed: int) -> None:
    chance, number = random.Random(seed), 8
    policy = [route(str(each)) for each in range(number)]
    source, before = Versions(tmp_path)._source, make_options(tmp_path, policy=policy)
    snapshot = ConfigSnapshot(source.load(), source.source_map)
    for _ in range(15):
        for _ in range(chance.randrange(1, 3)):
            place, number = chance.randrange(len(policy)), number + 1
            changed = {**policy[place], "timeout": f"{number}s"}
            policy = [*policy[:place], *chance.choice(([], [changed], [route(str(number)), policy[place]])), *policy[place + 1 :]]
        policy = policy or [route("a")]
        if chance.random() < 0.3:
            chance.shuffle(policy)
        after = make_options(tmp_path, policy=policy)
        now = ConfigSnapshot(source.load(), source.source_map)
        full_reload = [
            change() for change in diff_configs(ConfigSnapshot(before, snapshot.source_map), ConfigSnapshot(after, now.source_map))
        ]
        assert [change() for change in diff_configs(snapshot, now)] == full_reload
        before, snapshot = after, now
