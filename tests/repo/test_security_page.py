"""docs/security/README.md promises nothing that no test holds: every test and every class of attacks that it names is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security" / "README.md").read_text()
CLASSES = set(re.findall(r"^\| (B\d+) \|", (ROOT / "docs" / "security" / "attack-suite.md").read_text(), re.MULTILINE))
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))


def rows(heading: str) -> list[list[str]]:
    """Of the table below this heading, without its head."""
    section = PAGE.partition(f"\n## {heading}")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


PROMISES, ADVISORIES = rows("Promises"), rows("Published weaknesses")


def test_the_tests_that_are_named_are_there() -> None:
    assert NAMED
    is_there = {(file, name): re.search(rf"^(?:async )?def {name}\(", (ROOT / file).read_text(), re.MULTILINE) for file, name in NAMED}
    assert [each for each, found in is_there.items() if not found] == []


def test_nothing_is_named_as_a_test_in_another_form() -> None:
    assert len(re.findall(r"::", PAGE)) == len(re.findall(r"`tests/[\w/]+\.py::\w+`", PAGE))


def test_the_classes_of_attacks_that_are_named_are_there() -> None:
    assert set(re.findall(r"\bB\d+\b", PAGE)) - CLASSES == set()


def test_each_promise_and_each_published_weakness_says_what_shows_it() -> None:
    assert len(PROMISES) >= 15
    assert len(ADVISORIES) >= 50
    assert [row[0] for row in PROMISES if len(row) != 2 or not re.search(r"\bB\d+\b|::", row[1])] == []
    assert [row[:2] for row in ADVISORIES if len(row) != 5 or not re.search(r"\bB\d+\b|::", row[4])] == []


def test_each_published_weakness_has_its_ids_once_and_is_of_these_years() -> None:
    ids = [id for row in ADVISORIES for id in row[1].split(", ")]
    assert len(ids) == len(set(ids))
    assert [id for id in ids if not re.fullmatch(r"CVE-202[456]-\d{4,6}|GHSA(-[0-9a-z]{4}){3}", id)] == []


def test_the_page_is_found_from_the_front_page() -> None:
    assert "(docs/security/README.md)" in (ROOT / "README.md").read_text()
