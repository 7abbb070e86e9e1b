"""Lua scripts for Envoy, rendered with values that differ between starts of gate."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from proxy.envoy.resources.bootstrap import TYPE, Json

LUA = f"{TYPE}extensions.filters.http.lua.v3.Lua"
# Name of the Lua filter that finalizes an authorized request. Some routes run the response script in it instead
# (response_filter.py), because each further filter costs time in each request.
FINALIZE_FILTER = "gate-last-step"
_PLACEHOLDER = re.compile(r"\$([A-Z][A-Z_]*)\b")


def render_script(path: Path, values: Mapping[str, Any]) -> str:
    """Render a script file, replacing each `$NAME` by its value."""
    return _PLACEHOLDER.sub(lambda match: str(values[match[1]]), path.read_text())


def per_route(source: str) -> Json:
    """Return the per-route configuration of a Lua filter; "" disables it."""
    per_route: Json = {"@type": f"{TYPE}extensions.filters.http.lua.v3.LuaPerRoute"}
    return {**per_route, "source_code": {"inline_string": source}} if source else {**per_route, "disabled": True}


def quoted(text: str) -> str:
    return quoted_bytes(text.encode())


def quoted_bytes(text: bytes) -> str:
    return '"' + "".join(f"\\{byte:03d}" for byte in text) + '"'
