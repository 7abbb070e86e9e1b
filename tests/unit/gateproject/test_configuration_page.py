"""The admin shows the active configuration, its last change and rejected files, and no secret."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import authorize.admin
import databroker.admin.session_admin
import proxy.admin
from config.config_watcher import ConfigWatcher
from config.inspect.config_diff import UNSEEN, ConfigSnapshot, ValueChange
from config.options import Options
from foundation.errors import Problem
from gateproject import configuration_page
from gateproject.configuration_page import ROUTES_PER_PAGE, describe_scope
from gateproject.process.reload import ConfigProvenance, ConfigurationStatus
from tests.support.admin import AdminPages, apps_on_sign_in_page, visible_text
from tests.support.options import MINIMAL, make_options

pytestmark = pytest.mark.usefixtures("database")

PAGE = "gateproject/configuration/"


class Running:
    """gate with an active configuration, and its page."""

    def __init__(self, directory: Path, **settings: Any):
        self._directory = directory
        make_options(directory, **settings)
        self._source = ConfigWatcher(directory / "config.yaml", {})
        self.options = self._source.load()
        self.status, self.known = ConfigurationStatus.from_watcher(self._source), ConfigProvenance(self._source.source_map)

    def reload(self, **settings: Any) -> None:
        make_options(self._directory, **settings)
        written = ConfigSnapshot(self._source.load(), self._source.source_map)
        self.known = self.known.advance(self.options, self.status, written, written.options)
        self.options, self.status = written.options, ConfigurationStatus.from_watcher(self._source)

    def pages(self, **also: Any) -> AdminPages:
        registers = [part.register for part in (configuration_page, proxy.admin, authorize.admin, databroker.admin.session_admin)]
        return AdminPages(*registers, options=self.options, configuration=self.status, provenance=self.known, **also)

    def texts(self, *queries: dict[str, str]) -> list[str]:
        pages = self.pages()
        return [visible_text(pages.get(PAGE, **query)) for query in queries]

    def text(self) -> str:
        return self.texts({})[0]


def test_each_value_stands_with_the_line_that_it_came_from_or_as_a_default(tmp_path: Path) -> None:
    gate = Running(tmp_path, cookie_expire="90m")
    line = next(number for number, text in enumerate((tmp_path / "config.yaml").read_text().splitlines(), 1) if "cookie_expire" in text)
    text = gate.text()
    assert f"cookie_expire 1h30m {tmp_path / 'config.yaml'}:{line}" in text
    assert "cookie_name _gate default" in text
    assert f"Active: {tmp_path / 'config.yaml'} , checksum {gate.status.checksum}" in text


def test_no_secret_stands_on_the_page_before_or_after_a_change(tmp_path: Path) -> None:
    route = {"from": "https://a.example.com", "to": "http://u", "set_request_headers": {"X-Key": "hunter2"}, "allowed_groups": ["x"]}
    gate = Running(tmp_path, idp_client_secret="hunter2", policy=[route])
    gate.reload(idp_client_secret="hunter3", policy=[{**route, "set_request_headers": {"X-Key": "hunter3"}}])
    page = gate.pages().get(PAGE)
    assert b"hunter" not in page.content
    assert MINIMAL["cookie_secret"].encode() not in page.content
    assert "idp_client_secret (set, not shown)" in visible_text(page)
    assert f"policy[0] https://a.example.com: set_request_headers changed [X-Key] [X-Key] {UNSEEN}" in visible_text(page)


def test_after_start_page_reports_no_earlier_history(tmp_path: Path) -> None:
    assert "None since gate started." in Running(tmp_path).text()


def test_last_change_is_displayed_with_previous_values(tmp_path: Path) -> None:
    gate = Running(tmp_path, cookie_expire="1h")
    before = gate.status.checksum
    gate.reload(cookie_expire="2h")
    text = gate.text()
    assert f"1 value differs from the previous configuration: {tmp_path / 'config.yaml'} , checksum {before}" in text
    assert "cookie_expire changed 1h 2h" in text


def test_rejected_file_is_reported_with_errors_and_active_configuration(tmp_path: Path) -> None:
    gate = Running(tmp_path)
    problem = Problem("policy[0].from", "is <b>wrong</b>", 3, 5, "gate.yaml")
    gate.status = gate.status.rejected_with([problem], "gate")
    page = gate.pages().get(PAGE)
    assert "The file was rejected at" in visible_text(page)
    assert "gate.yaml:3:5 policy[0].from is <b>wrong</b>" in visible_text(page)
    assert b"<b>wrong" not in page.content


def test_parts_that_did_not_take_it_are_no_refused_file(tmp_path: Path) -> None:
    gate = Running(tmp_path)
    gate.status = gate.status.with_degradation((Problem("autocert", "did not take it"),), "gate")
    text = gate.text()
    assert "Active" in text
    assert "some parts" in text
    assert "refused" not in text


def test_changes_pending_restart_are_reported(tmp_path: Path) -> None:
    gate = Running(tmp_path)
    gate.known = replace(gate.known, pending_restart=(ValueChange("address", "changed", "127.0.0.1:1", "127.0.0.1:2"),))
    assert "Restart required Setting Active After restart address 127.0.0.1:1 127.0.0.1:2" in gate.text()


def test_markup_in_values_is_text(tmp_path: Path) -> None:
    route = {"from": "https://a.example.com", "to": "http://u", "name": "<script>alert(1)</script>", "allowed_groups": ["<img src=x>"]}
    gate = Running(tmp_path, policy=[route], groups_claim="groups")
    page = gate.pages().get(PAGE, route="<script>")
    assert b"<script>alert" not in page.content
    assert b"<img" not in page.content
    assert "<script>alert(1)</script>: https://a.example.com" in visible_text(page)


def test_many_routes_are_paginated_and_searchable(tmp_path: Path) -> None:
    names = [f"r{index:03}" for index in range(ROUTES_PER_PAGE + 5)]
    routes = [{"from": f"https://{name}.example.com", "to": "http://u", "allowed_groups": ["x"], "name": name.upper()} for name in names]
    gate = Running(tmp_path, policy=routes)
    first, second, last, found, none = gate.texts({}, {"p": "2"}, {"p": "99"}, {"route": "r012.EX"}, {"route": "nowhere"})
    assert ("R049:" in first, "R050:" in first, "Next" in first) == (True, False, True)
    assert ("R049:" in second, "R050:" in second) == (False, True)
    assert second == last
    assert ("1 route;" in found, "R012:" in found, "R013:" in found) == (True, True, False)
    assert "No matching routes." in none


def test_without_routes_or_pending_changes_page_is_short(tmp_path: Path) -> None:
    text = Running(tmp_path).text()
    assert "The configuration has no routes." in text
    assert "Restart required" not in text


@pytest.mark.parametrize(
    ("settings", "text"),
    [({}, "This is the configuration"), ({"workers": 3}, "All 3 processes"), ({"services": "authenticate"}, "authenticate service")],
)
def test_page_names_the_process_of_its_configuration(tmp_path: Path, settings: dict[str, Any], text: str) -> None:
    options: Options = make_options(tmp_path).model_copy(update=settings)
    assert text in describe_scope(options)


def test_only_administrators_see_it_or_its_name(tmp_path: Path) -> None:
    page = Running(tmp_path).pages(is_staff=False).get(PAGE)
    assert page.status_code == 302
    assert apps_on_sign_in_page(configuration_page.register) == []
