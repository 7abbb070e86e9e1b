"""No output for an invalid configuration contains a secret: not text, JSON, SARIF, log or exception."""

import base64
import itertools
import json
import tempfile
import traceback
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from authorize.config_checks import CONFIG_CHECKS
from config.lint import LINT_RULES
from config.loader import ConfigCheck, check_configuration
from config.reference.setting_catalog import route_keys
from config.reference.setting_catalog import settings_by_topic as declared_settings
from foundation.errors import ConfigError
from gateproject.process.config_report import ConfigReport, as_json, as_sarif, as_text
from tests.support.examples import examples
from tests.support.options import MINIMAL

MARK = "hunter2sEcReT"
ALL_CONFIG_CHECKS = (*CONFIG_CHECKS, *(ConfigCheck("weak-setting", rule, warns=True) for rule in LINT_RULES))
SECRET_MARKERS = ("secret", "key", "token", "password", "service_account", "connection_string")
NOT_SECRET = {"signing_key_algorithm"}


def is_secret(name: str) -> bool:
    return any(word in name for word in SECRET_MARKERS) and not name.endswith("_file") and name not in NOT_SECRET


SETTINGS = sorted(key.name for group in declared_settings().values() for key in group if is_secret(key.name))
ROUTE_KEYS = sorted(key.name for key in route_keys() if is_secret(key.name))

PEM = f"-----BEGIN PRIVATE KEY-----\n{MARK}\n-----END PRIVATE KEY-----"
PEMS = [PEM, base64.b64encode(PEM.encode()).decode()]
# A secret as people get it wrong: the wrong type, half of it, twice, in another coding, with a line too many.
FORMS: list[Any] = [
    MARK,
    f"{MARK}\n{MARK}",
    f" {MARK} ",
    f"{MARK}=",
    f"{MARK}\x00",
    [MARK],
    [[MARK]],
    {MARK: MARK},
    [{"a": MARK}],
    base64.b64encode(MARK.encode()).decode(),
    base64.b64encode(MARK.encode() * 3).decode()[:32] * 2,
    *PEMS,
    f"kvstore://user:{MARK}@host:6379/0",
    f"https://user:{MARK}@host/",
    f"kvstores://:{MARK}@store internal",
    f"postgresql://gate:{MARK}@db:port/x",
    f"mysql://gate:{MARK}@db/x",
    f"{MARK},{MARK}",
    [MARK, [MARK]],
]
LEAKS = (MARK, base64.b64encode(MARK.encode()).decode()[:14])


def all_output(path: Path, environ: dict[str, str]) -> str:
    checked = check_configuration(path, environ, ALL_CONFIG_CHECKS)
    report = ConfigReport(path, path.parent, checked.errors, checked.warnings)
    try:
        raise ConfigError(list(checked.errors))
    except ConfigError:
        logged = traceback.format_exc()
    return "\n".join([as_text(report), as_text(report, in_colour=True), as_json(report), as_sarif(report), logged, repr(checked)])


def leaks(output: str) -> list[str]:
    return [leak for leak in LEAKS if leak in output]


def test_the_marked_settings_are_those_that_hold_secrets() -> None:
    assert {"cookie_secret", "shared_secret", "idp_client_secret", "signing_key", "certificate_key"} <= set(SETTINGS)
    assert {"tls_client_key", "cluster_service_account_token"} <= set(ROUTE_KEYS)


@pytest.mark.parametrize("extension", ["yaml", "json"])
def test_no_form_of_invalid_secret_is_displayed(tmp_path: Path, extension: str) -> None:
    path = tmp_path / f"config.{extension}"
    route = {"from": "https://a.example.com", "to": "http://u", "allow_any_authenticated_user": True}
    for form in FORMS:
        headers = {"set_request_headers": {"Authorization": form}} if not isinstance(form, dict) else {}
        routes = [{**route, **headers, **dict.fromkeys(ROUTE_KEYS, form)}, {**route, "set_request_headers": f"Authorization {MARK}"}]
        document = {
            **MINIMAL,
            **dict.fromkeys(SETTINGS, form),
            "policy": routes,
            "idp_request_params": {"a": form},
            "headers": {"X-A": form},
            "certificates": [{"cert": "fullchain.pem", "key": key} for key in PEMS],
        }
        path.write_text(json.dumps(document) if extension == "json" else yaml.safe_dump(document))
        assert leaks(all_output(path, {})) == [], form


def test_no_invalid_secret_of_environment_is_displayed(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(MINIMAL))
    for form in (form for form in FORMS if isinstance(form, str)):
        assert leaks(all_output(path, {name.upper(): form for name in [*SETTINGS, "HEADERS", "IDP_REQUEST_PARAMS"]})) == []
        policy = [{"from": "https://a.example.com", "to": "http://u", **dict.fromkeys(ROUTE_KEYS, form)}]
        environ = {"POLICY": base64.b64encode(yaml.safe_dump(policy).encode()).decode()}
        assert leaks(all_output(path, environ)) == []


def test_no_secret_of_valid_configuration_is_displayed(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump({**MINIMAL, "idp_client_secret": MARK}))
    assert leaks(all_output(path, {})) == []
    assert MINIMAL["cookie_secret"] not in all_output(path, {})


TEXTS = {
    "yaml": f"cookie_secret: {MARK}\nidp_client_secret: '{MARK}'\nset_request_headers:\n  Authorization: \"Bearer {MARK}\"\n",
    "json": json.dumps({"cookie_secret": MARK, "policy": [{"set_request_headers": {"Authorization": f"Bearer {MARK}"}}]}, indent=1),
    "toml": f'cookie_secret = "{MARK}"\nidp_client_secret = """{MARK}"""\n[headers]\nAuthorization = \'{MARK}\'\n',
    "properties": f"cookie_secret = {MARK}\nheaders.Authorization = Bearer {MARK}\n",
}
DAMAGE = st.sampled_from(
    ["", " ", "\n", "\t", "'", '"', "{", "}", "[", "]", ":", ",", "#", "\\", "\\u", "&a ", "*a", "!x ", "|", "%", "\0", "é"]
)


@given(st.sampled_from(sorted(TEXTS)), st.lists(st.tuples(st.integers(0, 300), DAMAGE), min_size=1, max_size=3))
@examples(40)
def test_a_damaged_file_shows_nothing_of_the_secrets_in_it(extension: str, damage: list[tuple[int, str]]) -> None:
    """Damage may make a key of what was a value, and keys are shown: only what is still a value counts."""
    text = TEXTS[extension]
    for place, replacement in damage:
        place %= len(text)
        text = text[:place] + replacement + text[place + 1 :]
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / f"damaged.{extension}"
        path.write_text(text)
        output = all_output(path, {})
        keys = {problem.key for problem in check_configuration(path, {}, ALL_CONFIG_CHECKS).errors}
    displayed_keys = {part for key in keys for part in (key, key.split(".")[-1])}
    for key in itertools.chain(displayed_keys, (json.dumps(key)[1:-1] for key in displayed_keys)):
        output = output.replace(key, "") if key else output
    assert leaks(output) == []
