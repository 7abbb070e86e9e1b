"""File forms of secrets, for each setting and source, and their errors."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from config.config_watcher import ConfigWatcher
from config.file_forms import file_forms
from config.loader import load_options
from config.options import Options
from config.reference.setting_catalog import declared_keys as declared
from config.reference.setting_catalog import nested_models, route_keys, settings_by_topic
from foundation.errors import ConfigError
from foundation.values import SecretBytes, SecretText, WatchedFile
from tests.support.options import COOKIE_SECRET, MINIMAL, SHARED_SECRET
from tests.unit.config.conftest import COMPANIONS, Complete, Load, Problems

FORMS = {key: declared["file_form_of"] for key, declared in file_forms(Options).items()}


def _example(key: str) -> str:
    (example,) = Options.model_fields[key].examples or [""]
    return str(example)


def _holds_a_secret(annotation: Any) -> bool:
    arguments = getattr(annotation, "__args__", ())
    if WatchedFile in arguments:  # PEM, or a file with it
        return False
    if annotation in (SecretText, SecretBytes) or getattr(annotation, "__name__", "") in ("StorageUrl", "DatabaseUrl"):
        return True
    return any(map(_holds_a_secret, arguments))


def test_every_secret_has_a_file_form() -> None:
    declared_keys = [*(key for group in settings_by_topic().values() for key in group), *route_keys()]
    declared_keys += [key for _, model in nested_models(declared_keys) for key in declared(model)]
    secrets = [key for key in declared_keys if key.model is None and _holds_a_secret(key.field.annotation)]
    assert {"cookie_secret", "idp_client_secret", "database_url", "password", "client_secret"} <= {key.name for key in secrets}
    assert [key.name for key in secrets if f"{key.name}_file" not in key.owner.attributes()] == []


@pytest.mark.parametrize("key", FORMS)
def test_the_content_of_the_file_is_the_value(key: str, complete: Complete, tmp_path: Path, load: Load) -> None:
    setting, name = FORMS[key], _example(key)
    companions = complete({**COMPANIONS.get(setting, {}), **COMPANIONS.get(key, {})})
    content = (tmp_path / name).read_text()
    written = content.strip().split("\n")
    direct = load(**{**companions, setting: written if len(written) > 1 else written[0]})
    for ending in ("", "\n", "\r\n"):
        (tmp_path / name).write_bytes(content.rstrip("\n").replace("\n", "\r\n" if ending == "\r\n" else "\n").encode() + ending.encode())
        assert getattr(load(**companions, **{key: name}), setting) == getattr(direct, setting)
        environ = {key.upper(): str(tmp_path / name)}
        assert getattr(load(environ, **companions), setting) == getattr(direct, setting)


@pytest.mark.parametrize("key", FORMS)
def test_both_forms_are_one_too_many(key: str, complete: Complete, load: Load) -> None:
    setting, name = FORMS[key], _example(key)
    value = {"cookie_secret": COOKIE_SECRET, "shared_secret": SHARED_SECRET}.get(setting, "value")
    companions = complete({**COMPANIONS.get(setting, {}), **COMPANIONS.get(key, {})})
    with pytest.raises(ConfigError, match=f"{setting}: is set together with {key}"):
        load(**{**companions, setting: value, key: name})


INVALID = {
    "no file": (None, "can't be read: No such file or directory"),
    "empty": (b"\n", "must not be empty"),
    "several lines": (b"one\ntwo\n", "one line"),
    "no text": (b"\xff\xfe\x00", "UTF-8"),
}


@pytest.mark.parametrize("case", INVALID)
def test_file_problem_is_reported_once_at_its_key(case: str, tmp_path: Path, problems: Problems) -> None:
    content, message = INVALID[case]
    if content is not None:
        (tmp_path / "secret").write_bytes(content)
    found = problems(idp_client_secret=None, idp_client_secret_file="secret")
    assert list(found) == ["idp_client_secret_file"]
    assert message in found["idp_client_secret_file"]
    assert list(problems({"IDP_CLIENT_SECRET_FILE": str(tmp_path / "secret")}, idp_client_secret=None)) == ["IDP_CLIENT_SECRET_FILE"]


def test_invalid_value_in_file_is_located_by_line_without_its_content(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("hunter2\n")
    path = tmp_path / "config.yaml"
    incomplete = {key: value for key, value in MINIMAL.items() if key != "cookie_secret"}
    path.write_text("cookie_secret_file: secret\n" + yaml.safe_dump(incomplete))
    with pytest.raises(ConfigError) as caught:
        load_options(path, {})
    (problem,) = caught.value.problems
    assert (problem.key, problem.line) == ("cookie_secret_file", 1)
    assert "hunter2" not in str(problem)


def test_a_changed_file_is_a_change_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("first\n")
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump({key: value for key, value in MINIMAL.items() if key != "idp_client_secret"}))
    source = ConfigWatcher(path, {"IDP_CLIENT_SECRET_FILE": "secret"})
    assert source.load().idp_client_secret.reveal() == "first"
    (tmp_path / "secret").write_text("the second\n")
    assert source.has_changed()
    assert source.load().idp_client_secret.reveal() == "the second"


def test_a_setting_without_a_file_form_is_not_taken_for_another(problems: Problems) -> None:
    assert problems(idp_client_id_file="id")["idp_client_id_file"] == "unknown setting: idp_client_id has no file form"
