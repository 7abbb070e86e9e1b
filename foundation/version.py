"""Release version: `v<semver>+<git hash>`."""

import subprocess
from pathlib import Path

RELEASE = "0.1.0"


def version() -> str:
    """The version; the hash is missing where the code does not lie in a git checkout."""
    root = Path(__file__).parent.parent
    try:
        command = ["git", "rev-parse", "--short=12", "HEAD"]
        found = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=5, check=True)  # noqa: S603 - no input
    except (OSError, subprocess.SubprocessError):
        return f"v{RELEASE}"
    return f"v{RELEASE}+{found.stdout.strip()}"
