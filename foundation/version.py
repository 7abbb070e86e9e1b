"""Release version: `v<semver>+<git hash>`."""

import subprocess
from functools import cache
from pathlib import Path

RELEASE = "0.1.0"

# Written by who makes an image or a package; `git archive` fills it in by itself (.gitattributes).
_REVISION_FILE = Path(__file__).with_name("revision.txt")
_UNFILLED = "$Format"


def version() -> str:
    """The version; the hash is missing where neither revision.txt nor a git checkout tells it."""
    known = revision()
    return f"v{RELEASE}+{known}" if known else f"v{RELEASE}"


def revision() -> str:
    """Git hash, twelve digits, or ""."""
    return _written() or _of_checkout()


def _written() -> str:
    try:
        written = _REVISION_FILE.read_text().strip()
    except OSError:
        return ""
    return "" if written.startswith(_UNFILLED) else written[:12]


@cache
def _of_checkout() -> str:
    root = Path(__file__).parent.parent
    try:
        command = ["git", "rev-parse", "--short=12", "HEAD"]
        found = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=5, check=True)  # noqa: S603 - no input
    except (OSError, subprocess.SubprocessError):
        return ""
    return found.stdout.strip()
