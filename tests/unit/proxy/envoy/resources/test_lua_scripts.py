"""Values are put into scripts so that they stay values."""

from pathlib import Path

import pytest

from proxy.envoy.resources.lua_scripts import per_route, quoted, quoted_bytes, render_script


def test_each_placeholder_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.lua").write_text('local a, b = $NAME, "$OTHER_NAME" -- ("^;$")')
    assert render_script(tmp_path / "a.lua", {"NAME": 1, "OTHER_NAME": "x"}) == 'local a, b = 1, "x" -- ("^;$")'
    with pytest.raises(KeyError):
        render_script(tmp_path / "a.lua", {"NAME": 1})


def test_text_is_quoted_byte_by_byte() -> None:
    assert quoted('a"\n') == '"\\097\\034\\010"'
    assert quoted_bytes(b"\xff") == '"\\255"'


def test_a_route_without_a_script_has_none() -> None:
    assert per_route("")["disabled"] is True
    assert per_route("x")["source_code"] == {"inline_string": "x"}
