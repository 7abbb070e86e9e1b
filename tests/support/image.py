"""Container image of gate, built by buildah without a registry: its base has the layout of `python:3.13-slim`, from Debian's packages."""

import os
import signal
import subprocess
from pathlib import Path
from typing import Self

from tests.support.children import ROOT, Child, clean_environment, free_port

BASE = "docker.io/library/python:3.13-slim"
SUITE = "trixie"  # with Python 3.13
PACKAGES = "python3,python3-venv,ca-certificates"
OF_THIS_MACHINE = ("/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt")  # how pip reaches its index
STORAGE = '[storage]\ndriver = "vfs"\ngraphroot = "{0}/graph"\nrunroot = "{0}/run"\n'


class ImageBuilder:
    """Storage of images in a separate directory."""

    def __init__(self, directory: Path):
        self._directory = directory
        (directory / "storage.conf").write_text(STORAGE.format(directory))
        self.environment = clean_environment(
            CONTAINERS_STORAGE_CONF=str(directory / "storage.conf"),
            BUILDAH_ISOLATION="chroot",  # works without the privileges that a CI container lacks
            DOCKER_HOST=f"unix://{directory}/none",
        )

    def run(self, *command: str | Path) -> str:
        ended = subprocess.run(command, cwd=ROOT, env=self.environment, text=True, capture_output=True, check=False)
        assert ended.returncode == 0, f"{command} ended with {ended.returncode}:\n{ended.stdout[-2000:]}{ended.stderr[-4000:]}"
        return ended.stdout.strip()

    def build_base(self) -> None:
        archive = self._directory / "base.tar"
        targets = self.run("apt-get", "indextargets", "--format", "$(CODENAME) $(REPO_URI)", "Created-By: Packages").splitlines()
        mirror = next(target.partition(" ")[2] for target in sorted(targets) if "-" not in target.partition(" ")[0])
        self.run("mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}", SUITE, archive, mirror)
        base = self.run("buildah", "from", "scratch")
        self.run("buildah", "add", "--quiet", base, archive, "/")
        for file in filter(os.path.exists, OF_THIS_MACHINE):
            self.run("buildah", "add", "--quiet", base, file, file)
        self.run("buildah", "run", base, "--", "ln", "-s", "python3", "/usr/bin/python")
        self.run("buildah", "commit", "--quiet", "--rm", base, BASE)
        archive.unlink()

    def build(self, tag: str) -> None:
        self.run("deploy/compose/build_image", tag, "--pull=never", "--network=host")


class Container:
    """Container of an image. Its processes run as the image's user, on the host's network."""

    def __init__(self, builder: ImageBuilder, image: str):
        self._builder = builder
        self.name = builder.run("buildah", "from", "--pull-never", image)
        self.root = Path(builder.run("buildah", "mount", self.name))
        self.metrics_port = free_port()

    def run(self, *command: str) -> str:
        return self._builder.run(*self._command(*command))

    def start(self, *command: str, volumes: dict[Path, str] | None = None) -> "Contained":
        return Contained(*self._command(*_PRINT_PID, *command, volumes=volumes), environment=self._builder.environment)

    def _command(self, *command: str, volumes: dict[Path, str] | None = None) -> list[str]:
        options = [f"--volume={directory}:{path}:ro" for directory, path in (volumes or {}).items()]
        return ["buildah", "run", f"--env=METRICS_ADDRESS=127.0.0.1:{self.metrics_port}", *options, self.name, "--", *command]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._builder.run("buildah", "rm", self.name)


class Contained(Child):
    """Main process of a container. Its first line of output is its process id, because buildah does not forward signals."""

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        if self.process.poll() is None and self.lines:
            os.kill(int(self.lines[0]), number)
        return self.ended(30)

    def __exit__(self, *_: object) -> None:
        self.stop()
        super().__exit__(*_)


_PRINT_PID = ("sh", "-c", 'echo $$; exec "$@"', "sh")
