"""The pages describe every key once, in Markdown that renders, without a Python representation."""

import re

import pytest

from config.reference.setting_catalog import declared_keys, nested_models, route_keys, settings_by_topic
from config.reference.settings_page import route_page, settings_page

SETTINGS, ROUTES = settings_page({"address"}), route_page()
ALL_SETTINGS = [key for group in settings_by_topic().values() for key in group]
PAGES = [("settings", SETTINGS, ALL_SETTINGS), ("route", ROUTES, route_keys())]


def section(page: str, key: str) -> str:
    return page.partition(f"\n### `{key}`\n")[2].partition("\n### ")[0]


@pytest.mark.parametrize(("page", "declared"), [each[1:] for each in PAGES], ids=[each[0] for each in PAGES])
def test_every_key_has_one_heading_and_every_nested_key_a_row_below_it(page: str, declared: tuple) -> None:
    headings = re.findall(r"^### `(\w+)`$", page, re.MULTILINE)
    assert sorted(headings) == sorted(key.name for key in declared)
    for key in declared:
        rows = re.findall(r"^\| `(\w+)` \|", section(page, key.name), re.MULTILINE)
        assert sorted(rows) == sorted(inner.name for _, model in nested_models([key]) for inner in declared_keys(model))


def test_a_section_has_type_default_and_whether_it_needs_a_restart() -> None:
    expire = section(SETTINGS, "cookie_expire")
    assert "\nType: duration · Default: `14h`\n" in expire
    assert "```yaml\ncookie_expire: 1h45m\n```" in expire
    assert "Applied: restart" in section(SETTINGS, "address")
    assert "Configuration file only" in section(SETTINGS, "certificates")
    assert "\nType: string\n" in section(SETTINGS, "autocert_email")
    assert [line for line in ROUTES.splitlines() if "Applied" in line or "Configuration file only" in line] == []
    assert "Default: required" in section(SETTINGS, "cookie_secret")
    assert "Default: the value of `log_level`" in section(SETTINGS, "proxy_log_level")


def test_a_choice_is_listed_once() -> None:
    assert "Type: one of `1.2`, `1.3` ·" in section(SETTINGS, "tls_min_version")


@pytest.mark.parametrize("page", [SETTINGS, ROUTES])
def test_no_default_is_a_python_representation(page: str) -> None:
    assert re.findall(r"Decimal\(|<[a-z]+ object|\w+\(\w+=", page) == []


@pytest.mark.parametrize("page", [SETTINGS, ROUTES])
def test_tables_have_equal_numbers_of_cells(page: str) -> None:
    for table in re.split(r"\n\n", page):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines() if line.startswith("|")}
        assert len(widths) <= 1
