"""A setting means the same from every source: YAML, JSON, TOML and properties files, and the environment."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from config.loader import load_options
from config.options import Options
from config.reference.setting_catalog import FILE_ONLY, SettingKey, settings_by_topic
from tests.support.options import MINIMAL
from tests.unit.config.conftest import COMPANIONS, Complete

DECLARED = [key for group in settings_by_topic().values() for key in group]


def as_toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {as_toml(content)}" for key, content in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_toml, value)) + "]"
    return json.dumps(value)


def as_text(value: Any) -> str:
    """As the environment and properties have it."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return base64.b64encode(json.dumps(value).encode()).decode()
    if isinstance(value, list):
        return ",".join(value)
    return value if isinstance(value, str) else json.dumps(value)


def properties_line(key: str, value: Any) -> str:
    if isinstance(value, dict):
        return "\n".join(properties_line(f"{key}.{name}", content) for name, content in value.items())
    return f"{key} = {as_text(value)}".replace("\\", "\\\\")


WRITERS: dict[str, Callable[[dict[str, Any]], str]] = {
    "yaml": lambda values: yaml.safe_dump(values),
    "json": lambda values: json.dumps(values),
    "toml": lambda values: "\n".join(f"{key} = {as_toml(value)}" for key, value in values.items()),
    "properties": lambda values: "\n".join(properties_line(key, value) for key, value in values.items()),
}


def from_file(extension: str, values: dict[str, Any], directory: Path) -> Options:
    path = directory / f"config.{extension}"
    path.write_text(WRITERS[extension](values))
    return load_options(path, {"HOME": "/nowhere"})


def from_environment(values: dict[str, Any], directory: Path, monkeypatch: pytest.MonkeyPatch) -> Options:
    monkeypatch.chdir(directory)
    return load_options(None, {"HOME": "/nowhere"} | {key.upper(): as_text(value) for key, value in values.items()})


@pytest.mark.parametrize("key", DECLARED, ids=lambda key: key.name)
def test_every_example_means_the_same_from_every_source(
    key: SettingKey,
    complete: Complete,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attribute = Options.attributes()[key.name]
    for example in key.field.examples:
        whole = complete({**MINIMAL, **COMPANIONS.get(key.name, {}), key.name: example})
        values = {name: value for name, value in whole.items() if value is not None}
        wanted = getattr(from_file("yaml", values, tmp_path), attribute)
        for extension in WRITERS.keys() - ({"properties"} if key.name in FILE_ONLY else set()):
            assert getattr(from_file(extension, values, tmp_path), attribute) == wanted, extension
        if key.name not in FILE_ONLY:
            assert getattr(from_environment(values, tmp_path, monkeypatch), attribute) == wanted


@pytest.mark.parametrize("extension", WRITERS)
def test_the_environment_wins_over_every_kind_of_file(tmp_path: Path, extension: str) -> None:
    path = tmp_path / f"config.{extension}"
    path.write_text(WRITERS[extension]({**MINIMAL, "cookie_name": "file", "log_level": "warn"}))
    options = load_options(path, {"COOKIE_NAME": "environment"})
    assert (options.cookie_name, options.log_level, options.cookie_secure) == ("environment", "warn", True)


@pytest.mark.parametrize(
    "written",
    ["X-A:1,X-B:2", " X-A : 1 , X-B : 2 ", '{"X-A": "1", "X-B": "2"}'],
)
def test_headers_in_the_environment_replace_those_of_the_file(tmp_path: Path, written: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump({**MINIMAL, "headers": {"X-C": "3"}}))
    assert load_options(path, {}).headers == {"X-C": "3"}
    assert load_options(path, {"HEADERS": written}).headers == {"X-A": "1", "X-B": "2"}
    assert load_options(path, {"HEADERS": "disable:true"}).headers == {}


@pytest.mark.parametrize("written", ["prompt:login", '{"prompt": "login"}'])
def test_a_map_may_stand_in_the_environment(tmp_path: Path, written: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(MINIMAL))
    assert load_options(path, {"IDP_REQUEST_PARAMS": written}).idp_request_params == {"prompt": "login"}


def test_files_are_found_from_the_configuration_file(tmp_path: Path, complete: Complete, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    values = {**MINIMAL, "certificate_file": "fullchain.pem", "certificate_key_file": str(tmp_path / "privkey.pem")}
    options = from_file("yaml", complete(values), tmp_path)
    assert options.certificate_pairs[0].certificate == (tmp_path / "fullchain.pem").read_bytes()


def test_certificates_of_all_forms_count_together(tmp_path: Path, complete: Complete) -> None:
    values = {
        **MINIMAL,
        "certificate": "BASE64-OF-fullchain.pem",
        "certificate_key": "BASE64-OF-privkey.pem",
        "certificate_file": "fullchain.pem",
        "certificate_key_file": "privkey.pem",
        "certificates": [
            {"cert": "fullchain.pem", "key": "privkey.pem"},
            {"cert": "BASE64-OF-fullchain.pem", "key": "BASE64-OF-privkey.pem"},
        ],
    }
    options = from_file("yaml", complete(values), tmp_path)
    assert [pair.source for pair in options.certificate_pairs] == ["certificate", "certificate_file", "certificates[0]", "certificates[1]"]
    assert len({(pair.certificate, pair.key) for pair in options.certificate_pairs}) == 1
