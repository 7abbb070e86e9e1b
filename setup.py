"""What pyproject.toml can't say: a wheel, or an archive of the sources, knows the revision that it was made from."""

import runpy
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

# The tree is not on the path while it is built.
revision = runpy.run_path(str(Path(__file__).parent / "foundation" / "version.py"))["revision"]


def write_revision(directory: str) -> None:
    if known := revision():
        file = Path(directory) / "foundation" / "revision.txt"
        file.unlink(missing_ok=True)  # which may be a hard link to ours
        file.write_text(f"{known}\n")


class BuildWithRevision(build_py):
    def run(self) -> None:
        super().run()
        write_revision(self.build_lib)


class SdistWithRevision(sdist):
    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        write_revision(base_dir)


setup(cmdclass={"build_py": BuildWithRevision, "sdist": SdistWithRevision})
