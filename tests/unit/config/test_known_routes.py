"""A running gate reads only the routes that have changed: what comes of it is what comes of the whole file."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from config import load
from config.load import CheckedConfig, check_configuration
from config.routes.route_cache import RouteCache
from config.shown.places import Places
from tests.support.options import MINIMAL

ROUTE = "- from: https://{0}.example.com\n  to: http://127.0.0.1:8000\n  allowed_users: [{0}@example.com]\n"
# What is written into the file, each at some line of it: good and bad settings, routes and parts of routes.
LINES = (
    *("  timeout: 30s\n", "  timeout: 3x\n", "  prefix: /a\n", "  prefix: /a\n  prefix: /b\n", "  allow_websockets: 1\n"),
    *("  allow_websockets: true\n", "  nam: x\n", "  name: 'a\n    b'\n", "  description: |\n    - from: no route\n\n    text\n"),
    *("  set_request_headers:\n    X-A: '1'\n", "  policy:\n", "- from: https://new.example.com\n  to: http://127.0.0.1:1\n"),
    *("- from: https://new.example.com\n", "- {from: https://flow.example.com,\n   to: http://a}\n", "  tls_custom_ca_file: ca.pem\n"),
    *("  x: &x 1\n", "  y: *x\n", "  <<: {timeout: 5s}\n", "-\n", "- text\n", "# comment\n", "\n", "cookie_name: other\n"),
    *("cookie_nam: x\n", "policy: []\n", "---\n", "...\n", "\t\n", "'\n", "log_level: warn\n", "]\n", "  \n"),
    *("  to: http://127.0.0.1:2\n", "  path: /exact\n"),
)


def text_of(routes: int, chance: random.Random) -> str:
    indent = chance.choice(("", "  ", "    "))
    settings = yaml.safe_dump({**MINIMAL, "data_dir": "/data"})
    lines = "".join(ROUTE.format(f"app{number}") for number in range(routes)).splitlines(keepends=True)
    return settings + "policy:\n" + "".join(indent + line for line in lines) + chance.choice(("", "log_level: info\n"))


def edited(text: str, chance: random.Random) -> str:
    lines = text.splitlines(keepends=True)
    place = chance.randrange(len(lines) - len(MINIMAL)) + len(MINIMAL)
    kind = chance.randrange(5)
    if kind == 0:
        return "".join(lines[:place] + lines[place + 1 :])
    if kind == 1:
        return "".join([*lines[:place], lines[place].replace("app", "ap", 1), *lines[place + 1 :]])
    indent = " " * (len(lines[place]) - len(lines[place].lstrip(" ")))
    new = chance.choice(LINES)
    return "".join(
        [*lines[:place], *(f"{indent if chance.random() < 0.3 else ''}{line}" for line in new.splitlines(keepends=True)), *lines[place:]]
    )


def told(checked: CheckedConfig) -> Any:
    """All of it that anybody sees; of options also what `==` can't tell apart."""
    places = checked.places
    lines = [dict(route) for route in places.routes]
    return replace(checked, places=Places()), repr(checked.options), places.file, places.settings, lines


@pytest.mark.parametrize("seed", range(3))
def test_whatever_is_edited_the_options_the_problems_and_their_lines_are_those_of_the_whole_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    quick, read = [], load._read_unknown
    monkeypatch.setattr(load, "_read_unknown", lambda *given: (quick.append(found) if (found := read(*given)) else None, found)[1])
    chance, path = random.Random(seed), tmp_path / "config.yaml"
    for _ in range(12):
        known, good = RouteCache(), text_of(6, chance)
        text = good
        for _ in range(8):
            path.write_text(text, newline="")
            checked = check_configuration(path, {}, (), known)
            assert told(checked) == told(check_configuration(path, {})), text
            good = text if checked.options is not None else good
            text = edited(good, chance)
    assert len(quick) > 20
