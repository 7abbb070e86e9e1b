"""Release version: `v<semver>+<git hash>`."""

import subprocess
from functools import cache
from pathlib import Path

RELEASE = "0.2.0"

# Written by image and package builds; `git archive` substitutes the placeholder (.gitattributes).
_REVISION_FILE = Path(__file__).with_name("revision.txt")
_PLACEHOLDER = "$Format"


def version() -> str:
    """Return the version, without the hash if neither revision.txt nor a Git checkout has it."""
    commit = revision()
    return f"v{RELEASE}+{commit}" if commit else f"v{RELEASE}"


def revision() -> str:
    """Return the Git hash (twelve digits), or ""."""
    return _from_file() or _from_git()


def _from_file() -> str:
    try:
        text = _REVISION_FILE.read_text().strip()
    except OSError:
        return ""
    return "" if text.startswith(_PLACEHOLDER) else text[:12]


@cache
def _from_git() -> str:
    root = Path(__file__).parent.parent
    try:
        command = ["git", "rev-parse", "--short=12", "HEAD"]
        result = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=5, check=True)  # noqa: S603 - no input
    except (OSError, subprocess.SubprocessError):
        return ""
    return result.stdout.strip()
