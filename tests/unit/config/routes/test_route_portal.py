"""Keys of the portal: one line each, a picture that is none but one, and sensible values without them."""

from pathlib import Path

from authenticate.portal.icons import BUILTIN_ICON_PATHS
from config.fields.setting_files import watched_files
from config.routes.route_portal import ICONS
from foundation.values import WatchedFile
from tests.unit.config.conftest import Load, Problems

ROUTE = {"from": "https://app.example.com", "to": "http://127.0.0.1:9", "allow_any_authenticated_user": True}
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"/>'


def test_without_keys_route_is_displayed_and_redirect_is_not(load: Load) -> None:
    redirect = {"from": "https://old.example.com", "redirect": {"host_redirect": "app.example.com"}}
    routes = load(policy=[ROUTE, redirect, {**ROUTE, "path": "/x", "portal": "hide"}, {**redirect, "path": "/y", "portal": "show"}]).policy
    assert [route.is_in_portal for route in routes] == [True, False, False, True]
    assert (routes[0].title, routes[0].description, routes[0].icon, routes[0].category) == (None, None, None, None)


def test_a_file_is_read_and_watched(load: Load, tmp_path: Path) -> None:
    (tmp_path / "logo.svg").write_bytes(SVG)
    route = load(policy=[{**ROUTE, "icon": str(tmp_path / "logo.svg")}]).policy[0]
    assert route.icon == WatchedFile(tmp_path / "logo.svg", SVG)
    assert [file.path for file in watched_files(route)] == [tmp_path / "logo.svg"]


def test_an_icon_holds_shapes_alone(problems: Problems, tmp_path: Path) -> None:
    (tmp_path / "bad.svg").write_bytes(b'<svg xmlns="http://www.w3.org/2000/svg"><script/></svg>')
    assert "<script>" in problems(policy=[{**ROUTE, "icon": "bad.svg"}])["policy[0].icon"]


def test_each_word_has_its_drawing() -> None:
    assert tuple(BUILTIN_ICON_PATHS) == ICONS
