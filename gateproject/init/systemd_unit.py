"""systemd unit for this installation of gate (`gate init --systemd`)."""

import os
from pathlib import Path

DEFAULT_PATH = Path("/etc/systemd/system/gate.service")
_TEMPLATE = Path(__file__).parent / "gate@.service"
_PROGRAM, _CONFIGURATION = "/opt/gate/bin/gate", "/etc/gate/%i.yaml"
_HIDDEN = ("/home", "/root", "/run/user")  # by ProtectHome=yes


def systemd_unit(program: Path, configuration: Path) -> str:
    """Return a unit that runs `program` with a configuration file. Raise ValueError if systemd could not access one of them."""
    for path in (program, configuration):
        if any(path.is_relative_to(hidden) for hidden in _HIDDEN):
            raise ValueError(f"{path}: the unit sets ProtectHome=yes and cannot read it. Use a path outside {', '.join(_HIDDEN)}.")
        if any(character.isspace() or character in "%\\\"'$" for character in str(path)):
            raise ValueError(f"{path}: a path in a unit must not contain spaces, quotation marks, %, $ or \\.")
    _, _, text = _TEMPLATE.read_text().partition("\n")
    return text.replace(_PROGRAM, str(program)).replace(_CONFIGURATION, str(configuration)).replace("%i", "gate")


def write_unit(path: Path, text: str) -> None:
    """Write a world-readable unit. Raise FileExistsError or OSError."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644), "w", encoding="utf-8") as file:
        file.write(text)


def next_steps(unit: Path, configuration: Path) -> str:
    """Return the commands to run after the unit and the configuration are written."""
    return "\n".join(
        [
            "As root:",
            "  useradd --system --home-dir /var/lib/gate --shell /usr/sbin/nologin gate",
            f"  chown gate: {configuration}",
            f"  systemctl daemon-reload && systemctl enable --now {unit.stem}",
        ]
    )
