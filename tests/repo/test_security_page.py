"""Tests enforce all promises of docs/security: every class of attacks that its pages name exists; tests, see test_architecture.py."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SECURITY = ROOT / "docs" / "security"
PAGES = {name: (SECURITY / f"{name}.md").read_text() for name in ("promises", "advisories")}
BOTH = "\n".join(PAGES.values())
CLASSES = set(re.findall(r"^\| (B\d+) \|", (SECURITY / "attack-suite.md").read_text(), re.MULTILINE))


def rows(page: str) -> list[list[str]]:
    """Return the rows of all tables of this page, without their heads."""
    lines = [line for line in PAGES[page].splitlines() if line.startswith("|")]
    heads = {index - 1 for index, line in enumerate(lines) if line.startswith("|---")}
    body = [line for index, line in enumerate(lines) if index not in heads and not line.startswith("|---")]
    return [[cell.strip() for cell in line.removeprefix("|").removesuffix("|").split(" | ")] for line in body]


PROMISES, ADVISORIES = rows("promises"), rows("advisories")


def test_nothing_is_named_as_a_test_in_another_form() -> None:
    assert len(re.findall(r"::", BOTH)) == len(re.findall(r"`tests/[\w/]+\.py::\w+`", BOTH))


def test_the_classes_of_attacks_that_are_named_are_there() -> None:
    assert set(re.findall(r"\bB\d+\b", BOTH)) - CLASSES == set()


def test_each_promise_and_published_weakness_names_its_test() -> None:
    """Each promise states its limits, or "none"."""
    assert PROMISES
    assert ADVISORIES
    assert [row[0] for row in PROMISES if len(row) != 3 or not re.search(r"\bB\d+\b|::", row[2])] == []
    assert [row[:2] for row in ADVISORIES if len(row) != 5 or not re.search(r"\bB\d+\b|::", row[4])] == []


def test_each_published_weakness_has_its_ids_once_and_is_of_these_years() -> None:
    ids = [id for row in ADVISORIES for id in row[1].split(", ")]
    assert len(ids) == len(set(ids))
    assert [id for id in ids if not re.fullmatch(r"CVE-202[456]-\d{4,6}|GHSA(-[0-9a-z]{4}){3}", id)] == []


def test_the_pages_are_found_from_the_front_page() -> None:
    assert "(docs/security/README.md)" in (ROOT / "README.md").read_text()
    index = (SECURITY / "README.md").read_text()
    assert [name for name in PAGES if f"({name}.md)" not in index] == []
