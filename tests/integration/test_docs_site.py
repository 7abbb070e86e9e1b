"""The documentation site builds from a checkout, loads nothing from third parties, and a dead link fails the build by name."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOADED = re.compile(
    r"<(?:script|img|iframe)\b[^>]*\bsrc=\"?([^\" >]+)|<link\b[^>]*\brel=\"?(?:stylesheet|preconnect|icon)[^>]*\bhref=\"?([^\" >]+)"
)


def build(root: Path, site: Path) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--config-file",
        str(root / "mkdocs.yml"),
        "--site-dir",
        str(site),
    ]
    return subprocess.run(command, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin", "NO_MKDOCS_2_WARNING": "1"}, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("site")
    built = build(ROOT, directory)
    assert (built.returncode, re.findall(r"^(?:WARNING|ERROR).*", built.stderr, re.MULTILINE)) == (0, [])
    return directory


def test_no_page_loads_anything_from_a_third_party(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    loaded = {found for page in pages for pair in LOADED.findall(page.read_text()) for found in pair if found}
    assert loaded, "pages have a style sheet"
    assert sorted(found for found in loaded if re.match(r"(?:https?:)?//", found)) == []
    styles = "".join(path.read_text() for path in site.rglob("*.css"))
    assert re.findall(r"url\([\"']?(?:https?:)?//", styles) == []


def test_the_search_index_has_every_setting(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text())
    assert any("cookie_expire" in entry["title"] for entry in index["docs"])


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[a](nowhere.md)", "nowhere.md"),
        ("[a](README.md#no-such-heading)", "no-such-heading"),
        ("[a](../examples/nowhere.yaml)", "examples/nowhere.yaml"),
    ],
)
def test_a_dead_link_fails_the_build_by_file_and_link(tmp_path: Path, text: str, named: str) -> None:
    (tmp_path / "deploy").mkdir()
    shutil.copytree(ROOT / "deploy" / "site", tmp_path / "deploy" / "site")
    settings = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[0]
    (tmp_path / "mkdocs.yml").write_text(settings + "\n")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "README.md").write_text(f"# Page\n\n{text}\n")
    built = build(tmp_path, tmp_path / "site")
    assert built.returncode != 0
    assert "README.md" in built.stderr
    assert named in built.stderr
