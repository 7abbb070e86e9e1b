"""Which release this is: `v<semver>+<git hash>`."""

import subprocess
from pathlib import Path

RELEASE = "0.1.0"


def version() -> str:
    """The hash is missing where the code does not lie in a git checkout."""
    root = Path(__file__).parent.parent
    try:
        found = subprocess.run(  # noqa: S603 - fixed arguments
            ["git", "rev-parse", "--short=12", "HEAD"], cwd=root, capture_output=True, text=True, timeout=5, check=True  # noqa: S607
        )
    except (OSError, subprocess.SubprocessError):
        return f"v{RELEASE}"
    return f"v{RELEASE}+{found.stdout.strip()}"
