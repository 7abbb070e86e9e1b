"""Makes .venv/python3.x with requirements.txt for each other Python here that gate runs on: one on PATH, or of pyenv's.

`python3 .ci/other_pythons.py`; a second run takes no time.  tests/integration/test_each_python.py runs gate with each.
"""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = Path(os.environ.get("VENV") or ROOT / ".venv").absolute()
# What an interpreter may have been built without, and gate needs.
WORKS = "import ctypes, ensurepip, hashlib, sqlite3, ssl, sys, zlib; print(sys.executable)"


def main() -> None:
    for version in versions():
        if (python := found(version)) is not None:
            command = [python, ROOT / ".ci" / "environment.py", "requirements.txt"]
            if subprocess.run(command, env={**os.environ, "VENV": str(VENV / f"python{version}")}).returncode != 0:
                sys.exit(f"The tests run gate with Python {version}, too, and it has no environment ({python}).")


def versions() -> list[str]:
    """As pyproject.toml has them, without that of this interpreter: "3.12"."""
    required = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    first, end = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", required).groups()
    return [f"3.{minor}" for minor in range(int(first), int(end)) if minor != sys.version_info.minor]


def found(version: str) -> str | None:
    """Path of an interpreter that really runs; a version manager's shim may not."""
    for candidate in (f"python{version}", *installed(version)):
        try:
            said = subprocess.run([candidate, "-c", WORKS], capture_output=True, text=True)
        except OSError:
            continue
        if said.returncode == 0:
            return said.stdout.strip()
    return None


def installed(version: str) -> Iterator[Path]:
    """pyenv's, which are on PATH only where they are chosen."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from sorted((root / "versions").glob(f"{version}.*/bin/python{version}"), reverse=True)


if __name__ == "__main__":
    main()
