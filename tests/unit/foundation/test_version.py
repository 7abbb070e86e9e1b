import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from foundation import version as module
from foundation.version import RELEASE, version

ROOT = Path(__file__).parents[3]


def test_the_version_is_the_release_and_the_commit() -> None:
    assert re.fullmatch(rf"v{re.escape(RELEASE)}(\+[0-9a-f]{{12}})?", version())


@pytest.mark.parametrize(
    ("text", "revision"), [("0123456789abcdef0123456789abcdef01234567\n", "+0123456789ab"), (None, ""), ("", ""), ("$Format:%H$\n", "")]
)
def test_without_git_version_comes_from_image_or_release(tmp_path: Path, text: str | None, revision: str) -> None:
    shutil.copy(module.__file__, tmp_path / "version.py")
    if text is not None:
        (tmp_path / "revision.txt").write_text(text)
    command = [sys.executable, "-c", "import version; print(version.version())"]
    output = subprocess.run(command, cwd=tmp_path, env={"PATH": ""}, capture_output=True, text=True, check=True).stdout
    assert output.strip() == f"v{RELEASE}{revision}"


def test_a_source_archive_holds_its_revision(tmp_path: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("there is no checkout to make an archive of")
    (tmp_path / "source").mkdir()
    made = subprocess.run(
        ["git", "archive", "HEAD", "foundation/revision.txt", ".gitattributes"], cwd=ROOT, capture_output=True, check=True
    )
    subprocess.run(["tar", "--extract", "--directory", tmp_path / "source"], input=made.stdout, check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert (tmp_path / "source/foundation/revision.txt").read_text() == head
