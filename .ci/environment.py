"""Makes .venv and installs pinned requirement files into it, one line a step; a second run takes no time.

`python3 .ci/environment.py requirements.txt [more.txt]...` runs on a bare Python >= 3.11: standard library only.
"""

import hashlib
import importlib.util
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = Path(os.environ.get("VENV") or ROOT / ".venv").absolute()
PYTHON = VENV / "bin" / "python"


def main(requirement_files: list[str]) -> None:
    if not works(PYTHON):
        make_environment()
    for file in requirement_files:
        install(Path(file))


def works(python: Path) -> bool:
    return python.exists() and subprocess.run([python, "-m", "pip", "--version"], capture_output=True).returncode == 0


def make_environment() -> None:
    version = ".".join(map(str, sys.version_info[:3]))
    if importlib.util.find_spec("ensurepip") is None:
        sys.exit(
            f"Python {version} at {sys.executable} can't make a virtual environment; Debian keeps that in a package of its own.\n"
            "Get it with:  sudo apt-get install python3-venv"
        )
    step(f"Python {version}: making {shown(VENV)}", [sys.executable, "-m", "venv", "--clear", VENV])


def install(requirements: Path) -> None:
    content = (ROOT / requirements).read_bytes()
    stamp = VENV / f".installed-{requirements.stem}"
    wanted = hashlib.sha256(content).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    count = len(re.findall(rb"^[a-zA-Z0-9]", content, re.MULTILINE))
    pip = [PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--requirement", ROOT / requirements]
    step(f"Installing the {count} packages of {requirements}", pip)
    stamp.write_text(wanted)


def step(text: str, command: list[str | Path]) -> None:
    """One line: what happens, and how long it took.  What the command says appears only if it fails."""
    print(f"{text} ... ", end="", flush=True)
    started = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    if done.returncode != 0:
        print("failed", flush=True)
        sys.exit(done.stdout.rstrip() or f"status {done.returncode}")
    print(f"{time.monotonic() - started:.0f} s", flush=True)


def shown(path: Path) -> Path:
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
