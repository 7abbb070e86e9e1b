"""A configuration that loads, to be changed one setting at a time."""

import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from config.options import Options
from foundation.errors import ConfigError
from tests.support.cloud import account_json
from tests.support.fake_idp import RSA_KEY, public_jwk
from tests.support.options import MINIMAL, parse_options

Load = Callable[..., Options]
Problems = Callable[..., dict[str, str]]
Complete = Callable[[Any], Any]

_TLS = {"insecure_server": False, "certificate_file": "fullchain.pem", "certificate_key_file": "privkey.pem"}
# Other settings that a route key requires.
AROUND_ROUTES = {"tls_downstream_client_ca": _TLS, "tls_downstream_client_ca_file": _TLS, "upstream_http2": {"data_plane": "envoy"}}
KVSTORE_WITH_TLS = {"databroker_storage_connection_string": "kvstores://127.0.0.1"}
_HTTPS = {"to": "https://upstream.internal"}
OKTA = {"idp_provider": "okta", "idp_provider_url": "https://corp.okta.com"}
_JWT = {
    "bearer_token": "jwt",
    "bearer_token_issuer": "https://issuer.example.com",
    "bearer_token_audience": ["https://app.example.com"],
}
# Other keys that a key requires.
COMPANIONS: dict[str, dict[str, Any]] = {
    "access_webhook_secret": {"access_webhook_url": "https://hooks.example.com/services/T0/B0/x"},
    "access_webhook_secret_file": {"access_webhook_url": "https://hooks.example.com/services/T0/B0/x"},
    "access_webhook_url": {"access_webhook_secret": "PUT-A-RANDOM-SECRET-OF-32-CHARACTERS-HERE"},
    "access_webhook_url_file": {"access_webhook_secret": "PUT-A-RANDOM-SECRET-OF-32-CHARACTERS-HERE"},
    "authorize_service_url": {"services": "proxy", "databroker_service_url": "https://databroker.internal:5443"},
    "autocert": {"insecure_server": False},
    "autocert_eab_key_id": {"autocert_eab_mac_key": "BASE64-OF-THE-KEY"},
    "autocert_eab_mac_key": {"autocert_eab_key_id": "kid-1"},
    "autocert_eab_mac_key_file": {"autocert_eab_key_id": "kid-1"},
    "cookie_secret_file": {"cookie_secret": None},
    "idp_client_secret_file": {"idp_client_secret": None},
    "shared_secret_file": {"shared_secret": None},
    "certificate": {"certificate_key": "BASE64-OF-privkey.pem"},
    "certificate_key": {"certificate": "BASE64-OF-fullchain.pem"},
    "certificate_file": {"certificate_key_file": "privkey.pem"},
    "certificate_key_file": {"certificate_file": "fullchain.pem"},
    "client_ca": _TLS,
    "client_ca_file": _TLS,
    "http3": {**_TLS, "data_plane": "envoy"},
    "idle_timeout": {"from": "tcp+https://db.example.com:5432", "to": "tcp://127.0.0.1:5432"},
    "forward_auth_cache": {"forward_auth_url": "https://fwdauth.example.com"},
    "websocket_origins": {"allow_websockets": True},
    "tls_client_cert": {**_HTTPS, "tls_client_key": "BASE64-OF-client-key.pem"},
    "tls_client_cert_file": {**_HTTPS, "tls_client_key_file": "client-key.pem"},
    "tls_client_key": {**_HTTPS, "tls_client_cert": "BASE64-OF-client.pem"},
    "tls_client_key_file": {**_HTTPS, "tls_client_cert_file": "client.pem"},
    "least_request_lb_config": {"lb_policy": "LEAST_REQUEST"},
    "ring_hash_lb_config": {"lb_policy": "RING_HASH"},
    "maglev_lb_config": {"lb_policy": "MAGLEV"},
    "pass_provider_tokens": {**_HTTPS, "set_request_headers": {"X-Token": "${access_token}"}, "allow_any_authenticated_user": True},
    "pass_provider_tokens_unencrypted": {
        "to": "http://upstream.internal:8000",
        "pass_provider_tokens": True,
        "set_request_headers": {"X-Token": "${access_token}"},
    },
    "regex_rewrite_pattern": {"regex_rewrite_substitution": "/"},
    "regex_rewrite_substitution": {"regex_rewrite_pattern": "(a)(b)"},
    "host_path_regex_rewrite_pattern": {"host_path_regex_rewrite_substitution": "a"},
    "host_path_regex_rewrite_substitution": {"host_path_regex_rewrite_pattern": "(a)(b)"},
    "bearer_token": _JWT,
    "bearer_token_issuer": _JWT,
    "bearer_token_audience": _JWT,
    "bearer_token_jwks_url": _JWT,
    "bearer_token_jwks_file": _JWT,
    "identity_providers": dict.fromkeys(("idp_provider", "idp_provider_url", "idp_client_id", "idp_client_secret")),
    "idp_service_account": OKTA,
    "idp_service_account_file": OKTA,
    "databroker_storage_type": {"databroker_storage_connection_string": "kvstore://127.0.0.1"},
    "databroker_storage_ca_file": KVSTORE_WITH_TLS,
    "databroker_storage_cert_file": {**KVSTORE_WITH_TLS, "databroker_storage_key_file": "client-key.pem"},
    "databroker_storage_key_file": {**KVSTORE_WITH_TLS, "databroker_storage_cert_file": "client.pem"},
    "databroker_storage_tls_skip_verify": KVSTORE_WITH_TLS,
    "tracing_provider": {
        "tracing_span_endpoint": "http://localhost:9411/api/v2/spans",
        "tracing_thrift_agent_endpoint": "localhost:6831",
    },
}


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Options of the minimal configuration with these settings; None leaves one out."""

    def make(environ: dict[str, str] | None = None, **settings: Any) -> Options:
        chosen = {key: value for key, value in {**MINIMAL, **settings}.items() if value is not None}
        return parse_options(yaml.dump(chosen, Dumper=yaml.CSafeDumper).encode(), ".yaml", environ or {}, tmp_path)

    return make


@pytest.fixture
def problems(load: Load) -> Problems:
    """Key path -> message; empty for a configuration that loads."""

    def find(environ: dict[str, str] | None = None, **settings: Any) -> dict[str, str]:
        try:
            load(environ, **settings)
        except ConfigError as error:
            return {problem.key: problem.message for problem in error.problems}
        return {}

    return find


@pytest.fixture
def route_problems(problems: Problems) -> Problems:
    """As `problems`, for one route that otherwise loads; keys lose their `policy[0].`."""

    def find(**keys: Any) -> dict[str, str]:
        route = {"from": "https://app.example.com", "to": "http://upstream:8000", **keys}
        found = problems(policy=[{key: value for key, value in route.items() if value is not None}])
        return {key.removeprefix("policy[0]").removeprefix("."): message for key, message in found.items()}

    return find


@pytest.fixture
def complete(tmp_path: Path, pair: tuple[bytes, bytes]) -> Complete:
    return completed_in(tmp_path, pair)


def completed_in(directory: Path, pair: tuple[bytes, bytes]) -> Complete:
    """Examples name files and base64 of them, and secrets that people must make themselves: here they are."""
    contents = {"fullchain.pem": pair[0], "privkey.pem": pair[1], "ca.pem": pair[0], "signing-key.pem": pair[1]}
    contents |= {"client.pem": pair[0], "client-key.pem": pair[1], "account.json": account_json(), "token": b"PUT-THE-TOKEN-HERE\n"}
    contents |= {
        "logo.svg": b'<svg xmlns="http://www.w3.org/2000/svg"/>',
        "idp-account.json": b'{"api_key": "PUT-THE-KEY-HERE"}',
        "webhook-secret": b"PUT-A-RANDOM-SECRET-OF-32-CHARACTERS-HERE",
        "build-agent-secret": b"PUT-A-RANDOM-SECRET-OF-32-CHARACTERS-HERE",
        "corp-client-secret": b"PUT-THE-SECRET-HERE",
        "client-secret": b"PUT-THE-SECRET-HERE\n",
        "cookie-secret": f"{MINIMAL['cookie_secret']}\n".encode(),
        "shared-secret": f"{MINIMAL['shared_secret']}\n".encode(),
        "eab-mac-key": base64.b64encode(b"PUT-THE-KEY-HERE") + b"\n",
        "webhook-url": b"https://hooks.example.com/services/T0/B0/x\n",
        "ext-authz-tokens": b"PUT-A-RANDOM-TOKEN-OF-32-CHARACTERS-HERE\nPUT-ANOTHER-TOKEN-OF-32-CHARACTERS-HERE\n",
        "store-url": b"kvstores://:PASSWORD@store.internal:6379/0\n",
        "database-url": b"postgresql://gate:PASSWORD@db.internal/gate\n",
        "scim-token": b"PUT-A-RANDOM-TOKEN-OF-32-CHARACTERS-HERE\n",
    }
    contents["keys.json"] = json.dumps({"keys": [public_jwk(RSA_KEY, "RS256", "one")]}).encode()
    for name, content in {**contents, "directory.yaml": b"users: []\n", "policy-tests.yaml": b"[]\n"}.items():
        (directory / name).write_bytes(content)
    values = {f"BASE64-OF-{name}": base64.b64encode(content).decode() for name, content in contents.items()}
    values |= {"PUT-A-SECRET-HERE": MINIMAL["cookie_secret"], "PUT-ANOTHER-SECRET-HERE": MINIMAL["shared_secret"]}

    def replaced(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: replaced(content) for key, content in value.items()}
        if isinstance(value, list):
            return [replaced(element) for element in value]
        return values.get(value, value) if isinstance(value, str) else value

    return replaced


def pem(key: Any) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@pytest.fixture(scope="session")
def pair() -> tuple[bytes, bytes]:
    """A self-signed certificate and its key, PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "app.example.com")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1))
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM), pem(key)


@pytest.fixture(scope="session")
def other_key() -> bytes:
    return pem(ec.generate_private_key(ec.SECP256R1()))
