"""The documents name existing files, pages and, outside docs/decisions, symbols."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
DECISIONS = sorted(set((ROOT / "docs" / "decisions").glob("*.md")) - {ROOT / "docs" / "decisions" / "README.md"})
DOCUMENTS = [ROOT / "ARCHITECTURE.md", ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PLACE = re.compile(
    r"`((?:gateproject|authenticate|authorize|databroker|proxy|config|foundation|tests)/[\w/.-]*)`((?:[,\s]+`[A-Za-z_][\w.]*`)*)"
)
PAGE = re.compile(r"\bdocs/[\w/.-]+\.(?:md|json)\b")
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)\s]*)?\)")
NAMED_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
SECTIONS = ["Context", "Decision", "Consequences", "Code", "Tests"]
MAX_DECISION_PAGES = 28  # with the index: a new topic joins a page, or two pages merge


def test_every_file_and_symbol_named_in_the_docs_exists() -> None:
    """Decisions are checked for files alone, so that a rename does not edit a dozen pages."""
    assert {document.name: missing for document in DOCUMENTS if (missing := _missing(document))} == {}


def _missing(document: Path) -> list[str]:
    missing = []
    for place, symbols in PLACE.findall(document.read_text()):
        path = ROOT / place
        if not path.exists():
            missing.append(place)
        for symbol in re.findall(r"`([^`]+)`", symbols) if path.is_file() and document not in DECISIONS else ():
            for name in symbol.split(".") if not symbol.endswith(".py") else ():
                if not re.search(rf"\b(?:def|class) {name}\b|^\s*(?:self\.)?{name}\b.*=", path.read_text(), re.MULTILINE):
                    missing.append(f"{place} {symbol}")
    return missing


def test_every_test_named_in_the_docs_exists() -> None:
    named = {each for document in DOCUMENTS for each in NAMED_TEST.findall(document.read_text())}
    assert named
    exists = {(file, name): re.search(rf"^(?:async )?def {name}\(", (ROOT / file).read_text(), re.MULTILINE) for file, name in named}
    assert sorted(each for each, found in exists.items() if not found) == []


def test_each_requirement_of_the_standards_has_its_tests() -> None:
    page, _, _ = (ROOT / "docs" / "reference" / "mcp-standards.md").read_text().partition("## Not supported")
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ") and not line.startswith("| Standard")]
    assert rows
    assert [row for row in rows if len(row) != 3 or len(NAMED_TEST.findall(row[2])) != row[2].count("`") // 2 or "::" not in row[2]] == []


def test_every_page_that_is_pointed_to_is_there() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    texts = {name: (ROOT / name).read_text(errors="replace") for name in listed if name and (ROOT / name).is_file()}
    named = {(name, page) for name, text in texts.items() for page in PAGE.findall(text)}
    linked = {(name, link) for name, text in texts.items() if name.endswith(".md") for link in LINK.findall(text)}
    assert named
    assert linked
    assert sorted(each for each in named if not (ROOT / each[1]).is_file()) == []
    assert sorted((name, link) for name, link in linked if not (ROOT / name).parent.joinpath(link).exists()) == []


def test_every_decision_is_in_the_index() -> None:
    index = (ROOT / "docs" / "decisions" / "README.md").read_text()
    assert [page.name for page in DECISIONS if f"]({page.name})" not in index] == []


def test_every_decision_has_the_same_sections() -> None:
    assert {page.name: found for page in DECISIONS if (found := re.findall(r"^## (.+)$", page.read_text(), re.MULTILINE)) != SECTIONS} == {}
    assert len(DECISIONS) + 1 <= MAX_DECISION_PAGES
