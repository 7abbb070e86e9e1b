"""Every configuration in the documentation passes `gate check`.

A block counts when its fence is ```` ```yaml title="config.yaml" ````.  A block with routes only, or with some settings, is completed with
the settings that every configuration needs; the files that it names are created.
"""

import base64
import json
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from config.loader import check_configuration
from config.settings.directory_account import ACCOUNT_FIELDS
from gateproject.management.commands.checkconfig import ALL_CONFIG_CHECKS
from tests.support.certs import CertificateFiles, certificate_files

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "deploy" / "README.md"]
BLOCK = re.compile(r"^( *)```yaml title=\"config\.yaml\"\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
SECRET = base64.b64encode(secrets.token_bytes(32)).decode()
PLACEHOLDER = re.compile(r"\bPUT-[A-Z-]+-HERE\b|<[a-z -]+>")


class Example(NamedTuple):
    page: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def examples_of(page: Path) -> Iterator[Example]:
    text = page.read_text()
    for block in BLOCK.finditer(text):
        lines = [line.removeprefix(block[1]) for line in block[2].splitlines()]
        yield Example(page, text.count("\n", 0, block.start()) + 1, "\n".join(lines))


EXAMPLES = [example for page in PAGES for example in examples_of(page)]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    return certificate_files(tmp_path_factory.mktemp("certificates"), "*.example.com", "authenticate.example.com")


def completed(text: str) -> dict[str, Any]:
    found = yaml.safe_load(PLACEHOLDER.sub(SECRET, text))
    found = {"policy": found} if isinstance(found, list) else found
    base: dict[str, Any] = {"authenticate_service_url": "https://authenticate.example.com"}
    if found.get("services") not in ("proxy", "databroker"):
        base |= {"idp_provider": "oidc", "idp_provider_url": "https://idp.example.com", "idp_client_id": "gate", "idp_client_secret": "s"}
    if "identity_providers" in found:
        base = {key: value for key, value in base.items() if not key.startswith("idp_")}
    base |= {"cookie_secret": SECRET, "shared_secret": SECRET}
    base = {key: value for key, value in base.items() if f"{key}_file" not in found}
    if not {"insecure_server", "autocert", "certificate", "certificates"} & found.keys():
        base |= {"certificate_file": "tls.pem", "certificate_key_file": "tls-key.pem"}
    if "policy" not in found:
        base["policy"] = [{"from": "https://app.example.com", "to": "http://127.0.0.1:8000", "allow_any_authenticated_user": True}]
    return {**base, **found}


def files_named(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, str, Any]]:
    """Return (key, file name, object that contains the key)."""
    if isinstance(value, list):
        for element in value:
            yield from files_named(element, path)
    elif isinstance(value, dict):
        for key, content in value.items():
            if isinstance(content, str) and (key.endswith("_file") or key in ("cert", "key", "logo") or (key == "icon" and "." in content)):
                yield key, content, value
            else:
                yield from files_named(content, (*path, key))


def content_of(key: str, holder: dict[str, Any], certificate: CertificateFiles) -> bytes:
    name = key.removesuffix("_file")
    if name in ("logo", "icon"):
        return b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"><path d="M0 0h8v8z"/></svg>'
    if "service_account" in name and "token" not in name:
        provider = holder.get("idp_provider", holder.get("provider", ""))
        account = dict.fromkeys(ACCOUNT_FIELDS.get(provider, ()), "x")
        return json.dumps(account | {"directory_id": "00000000-0000-0000-0000-000000000000"}).encode()
    if name == "directory":
        return b"users: [{id: alice, email: alice@example.com, groups: [engineering]}]\ngroups: [{id: engineering}]\n"
    if name == "policy_tests":
        return b"[]\n"
    if name == "bearer_token_jwks":
        return b'{"keys": []}'
    if name == "jwks":
        return b'{"keys": [{"kty": "EC"}]}'
    if name in ("cookie_secret", "shared_secret"):
        return SECRET.encode()
    if any(word in name for word in ("secret", "token", "password")):
        return SECRET.encode()
    return (certificate.key if name.endswith("key") else certificate.certificate).read_bytes()


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_a_configuration_in_the_documentation_is_valid(example: Example, tmp_path: Path, certificate: CertificateFiles) -> None:
    configuration = completed(example.text)
    for key, name, holder in list(files_named(configuration)):
        path = tmp_path / Path(name).name
        path.write_bytes(content_of(key, holder, certificate))
        holder[key] = str(path)
    if "data_dir" in configuration:
        configuration["data_dir"] = str(tmp_path / "data")
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(configuration, sort_keys=False))
    checked = check_configuration(path, {}, ALL_CONFIG_CHECKS)
    assert [str(problem) for problem in checked.errors] == [], str(example)
