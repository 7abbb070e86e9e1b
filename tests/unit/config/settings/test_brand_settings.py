"""Brand: a name, a logo that is only an image, and a colour; each error is reported at its location."""

from pathlib import Path

import pytest

from config.fields.setting_files import watched_files
from config.settings.brand_settings import MAX_LOGO_BYTES
from foundation.values import WatchedFile
from tests.unit.config.conftest import Load, Problems

SVG = b'<svg xmlns="http://www.w3.org/2000/svg"/>'


def test_without_it_pages_are_gates_own(load: Load) -> None:
    assert load().brand is None
    brand = load(brand={}).brand
    assert brand is not None
    assert (brand.name, brand.logo, brand.accent) == ("gate", None, None)


def test_its_logo_is_read_and_watched(load: Load, tmp_path: Path) -> None:
    (tmp_path / "logo.svg").write_bytes(SVG)
    options = load(brand={"name": " Example Corp ", "logo": "logo.svg", "accent": "#0B6E4F"})
    assert options.brand is not None
    assert (options.brand.name, options.brand.accent) == ("Example Corp", "#0b6e4f")
    assert options.brand.logo == WatchedFile(tmp_path / "logo.svg", SVG)
    assert tmp_path / "logo.svg" in [file.path for file in watched_files(options)]


def test_environment_may_set_it(load: Load) -> None:
    brand = load(environ={"BRAND": '{"name": "Example Corp", "accent": "#abc"}'}).brand
    assert brand is not None
    assert (brand.name, brand.accent) == ("Example Corp", "#aabbcc")


def test_environment_sets_it_in_json(problems: Problems) -> None:
    assert list(problems(environ={"BRAND": "Example Corp"})) == ["BRAND"]
    assert "JSON" in problems(environ={"BRAND": "{name: x}"})["BRAND"]
    assert "hexadecimal" in problems(environ={"BRAND": '{"accent": "red"}'})["BRAND.accent"]


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("name", "x" * 41, "at most 40 characters"),
        ("name", "a\u202eb", "must not contain invisible"),
        ("name", "", "must not be empty"),
        ("accent", "red", "six hexadecimal digits"),
        ("accent", "#12345", "six hexadecimal digits"),
        ("accent", "#1234567", "six hexadecimal digits"),
        ("accent", "#ff0000;} * {display: none", "six hexadecimal digits"),
        ("accent", 123456, "must be"),
        ("logo", "logo.gif", ".png or .svg"),
        ("logo", "missing.png", "can't be read"),
        ("logo", "large.svg", "12 KiB"),
        ("logo", "script.svg", "<script>"),
        ("logo", "event.svg", "the attribute onload"),
        ("logo", "foreign.svg", "<foreignObject>"),
        ("logo", "outside.svg", "external reference: href='https://evil.example/'"),
        ("logo", "doctype.svg", "document type"),
        ("logo", "page.svg", "<html>"),
        ("logo", "picture.png", "is neither a PNG"),
        ("colour", "#ff0000", "unknown setting"),
    ],
)
def test_undisplayable_value_is_refused_by_name(problems: Problems, tmp_path: Path, key: str, value: object, message: str) -> None:
    head = b'<svg xmlns="http://www.w3.org/2000/svg"'
    files = {
        "large.svg": SVG + b" " * MAX_LOGO_BYTES,
        "script.svg": head + b"><script>alert(1)</script></svg>",
        "event.svg": head + b' onload="alert(1)"/>',
        "foreign.svg": head + b"><foreignObject/></svg>",
        "outside.svg": head + b'><linearGradient href="https://evil.example/"/></svg>',
        "doctype.svg": b'<!DOCTYPE svg [<!ENTITY a SYSTEM "file:///etc/passwd">]>' + SVG,
        "page.svg": b'<html xmlns="http://www.w3.org/1999/xhtml"/>',
        "picture.png": b"GIF89a",
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    (found,) = problems(brand={key: value}).items()
    assert found[0] == f"brand.{key}"
    assert message in found[1]
