"""Every example is a valid configuration once its secrets and files exist."""

import base64
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from authenticate.directory.file_source import read
from config.loader import check_configuration, load_options
from config.reference.schema import json_schema
from foundation.errors import ConfigError
from gateproject.management.commands.checkconfig import ALL_CONFIG_CHECKS
from tests.support.certs import CertificateFiles, certificate_files

ROOT = Path(__file__).parents[2]
SCHEMA = ROOT / "docs" / "reference" / "config.schema.json"
VALIDATOR = Draft202012Validator(json_schema())
SPLIT = sorted((ROOT / "examples" / "split").glob("*.yaml"))
EXAMPLES = [ROOT / "config.example.yaml", *sorted((ROOT / "examples").glob("*/gate.yaml")), *SPLIT]
COOKIE_SECRET, SHARED_SECRET = (base64.b64encode(hashlib.sha256(name).digest()).decode() for name in (b"cookie", b"shared"))
PLACEHOLDERS = {"PUT-A-SECRET-HERE": COOKIE_SECRET, "PUT-ANOTHER-SECRET-HERE": SHARED_SECRET, "PUT-A-TOKEN-HERE": COOKIE_SECRET}

each_example = pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: str(path.relative_to(ROOT)))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    return certificate_files(tmp_path_factory.mktemp("certificates"), "*.example.com", "*.example.org")


def completed(example: Path, directory: Path, certificate: CertificateFiles) -> Path:
    """Copy the example to `directory`, with secrets and with the files that it names."""
    text = example.read_text()
    for placeholder, secret in PLACEHOLDERS.items():
        text = text.replace(placeholder, secret)
    for key, name in files_named(yaml.safe_load(text)):
        shipped = example.parent / name
        pem = certificate.key if key.removesuffix("_file").endswith("key") else certificate.certificate
        (directory / name).write_bytes((shipped if shipped.exists() else pem).read_bytes())
    path = directory / "gate.yaml"
    path.write_text(text)
    return path


def secrets(example: Path, certificate: CertificateFiles) -> dict[str, str]:
    """Return the environment variables that an example expects."""
    left = {} if "identity_providers:\n" in example.read_text() else {"IDP_CLIENT_SECRET": "given-by-the-provider"}
    if "signing_key_file" not in example.read_text():
        left["SIGNING_KEY"] = base64.b64encode(certificate.key.read_bytes()).decode()
    if "cookie_secret" not in example.read_text():
        left |= {"COOKIE_SECRET": COOKIE_SECRET, "SHARED_SECRET": SHARED_SECRET}
    return left


def files_named(value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, list):
        for element in value:
            yield from files_named(element)
    elif isinstance(value, dict):
        for key, content in value.items():
            if key.endswith("_file") or key in ("cert", "key"):
                yield key, content
            else:
                yield from files_named(content)


@each_example
def test_example_passes_check(example: Path, tmp_path: Path, certificate: CertificateFiles) -> None:
    checked = check_configuration(completed(example, tmp_path, certificate), secrets(example, certificate), ALL_CONFIG_CHECKS)
    assert [str(problem) for problem in (*checked.errors, *checked.warnings)] == []
    assert checked.options
    options = checked.options
    assert options.policy or options.services == "databroker", "an example shows routes"
    if options.directory_file:
        assert read(options.directory_file, options.first_provider).users


@each_example
def test_the_schema_accepts_an_example_once_its_secrets_are_there(example: Path, tmp_path: Path, certificate: CertificateFiles) -> None:
    written = yaml.safe_load(completed(example, tmp_path, certificate).read_text())
    assert [error.message for error in VALIDATOR.iter_errors(written)] == []


@each_example
def test_an_example_starts_nothing_before_its_secrets_are_there(example: Path) -> None:
    with pytest.raises(ConfigError, match="secret"):
        load_options(example, {})


@each_example
def test_editors_find_the_schema(example: Path) -> None:
    first = example.read_text().splitlines()[0]
    found = re.fullmatch(r"# yaml-language-server: \$schema=(\S+)", first)
    assert found, "the first line names the schema"
    assert (example.parent / found[1]).resolve() == SCHEMA


def test_table_of_examples_is_complete() -> None:
    listed = re.findall(r"\]\((\S+/\w+\.yaml)\)", (ROOT / "examples" / "README.md").read_text())
    assert sorted(listed) == sorted(str(path.relative_to(ROOT / "examples")) for path in EXAMPLES[1:])


def test_the_services_of_a_split_deployment_fit_together(tmp_path: Path, certificate: CertificateFiles) -> None:
    loaded = {}
    for example in SPLIT:
        (tmp_path / example.stem).mkdir()
        path = completed(example, tmp_path / example.stem, certificate)
        loaded[example.stem] = load_options(path, secrets(example, certificate))
    assert {name: options.services for name, options in loaded.items()} == {name: name for name in loaded}
    assert len(loaded) == 4
    decide = [loaded[name] for name in ("authorize", "authenticate", "proxy")]
    for key in ("policy", "authenticate_service_url", "databroker_service_url", "shared_secret", "cookie_secret", "idp_provider_url"):
        assert len({repr(getattr(options, key)) for options in decide}) == 1, key
    assert not any(options.grpc_insecure or options.insecure_server for options in loaded.values())
    assert "idp_client_secret" not in (ROOT / "examples" / "split" / "proxy.yaml").read_text()
