"""Options for tests, as the loader makes them: `make_options(cookie_name="x")`."""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from config.loader import check_content, load_options, require_options
from config.options import Options

COOKIE_SECRET = base64.b64encode(bytes(range(32))).decode()
SHARED_SECRET = base64.b64encode(bytes(range(32, 64))).decode()

MINIMAL: dict[str, Any] = {
    "insecure_server": True,
    "address": "127.0.0.1:8443",
    "grpc_address": "",
    "authenticate_service_url": "https://auth.example.com",
    "idp_provider": "oidc",
    "idp_provider_url": "https://idp.example.com",
    "idp_client_id": "gate",
    "idp_client_secret": "client-secret",
    "cookie_secret": COOKIE_SECRET,
    "shared_secret": SHARED_SECRET,
}


def make_options(directory: Path, **settings: Any) -> Options:
    """Load options from a file in `directory`; a setting of None is omitted."""
    chosen = {key: value for key, value in {**MINIMAL, "data_dir": str(directory / "data"), **settings}.items() if value is not None}
    path = directory / "config.yaml"
    path.write_text(yaml.dump(chosen, Dumper=yaml.CSafeDumper))
    return load_options(path, {})


def parse_options(content: bytes, extension: str, environ: Mapping[str, str], directory: Path) -> Options:
    """Return the options of `load_options` for the content of a configuration file in `directory`."""
    return require_options(check_content(content, extension, environ, directory))
