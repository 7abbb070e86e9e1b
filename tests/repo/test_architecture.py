"""The map names real places: each file exists, and each symbol beside it is defined there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs" / "decisions").glob("*.md"))]
PLACE = re.compile(
    r"`((?:gateproject|authenticate|authorize|databroker|proxy|config|foundation|tests)/[\w/.-]*)`((?:[,\s]+`[A-Za-z_][\w.]*`)*)"
)


def test_every_file_and_symbol_named_in_the_docs_exists() -> None:
    assert {document.name: missing for document in DOCUMENTS if (missing := _missing(document))} == {}


def _missing(document: Path) -> list[str]:
    missing = []
    for place, symbols in PLACE.findall(document.read_text()):
        path = ROOT / place
        if not path.exists():
            missing.append(place)
        for symbol in re.findall(r"`([^`]+)`", symbols) if path.is_file() else ():
            for name in symbol.split(".") if not symbol.endswith(".py") else ():
                if not re.search(rf"\b(?:def|class) {name}\b|^\s*(?:self\.)?{name}\b.*=", path.read_text(), re.MULTILINE):
                    missing.append(f"{place} {symbol}")
    return missing


def test_every_decision_is_in_the_index() -> None:
    index = (ROOT / "docs" / "decisions" / "README.md").read_text()
    for page in (ROOT / "docs" / "decisions").glob("*.md"):
        title = page.read_text().splitlines()[0].removeprefix("# ")
        assert page.name == "README.md" or f"- [{title}]({page.name})" in index, page.name
