"""First configuration: its text, with a comment at each setting, its secrets, and its file, which is never written over another."""

import base64
import os
import secrets
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Any

import yaml
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from authenticate.post_logout_redirect import PATH as SIGNED_OUT
from gateproject.init.questions import CALLBACK, Answers, redirect_uri, settings_of

FILE = "config.yaml"
# What begins a group of settings, in the order of the file.
_COMMENTS = {
    "authenticate_service_url": "Where people reach the sign-in. The redirect URI that the provider knows: {redirect_uri}",
    "address": "Where gate listens.",
    "autocert": "Certificates come from Let's Encrypt, for each host of a route and for the sign-in (docs/guides/certificates.md).",
    "insecure_server": "Something in front of gate ends TLS: what it says of clients (X-Forwarded-For) is believed from these addresses.",
    "certificate_file": "A certificate for the sign-in and for the host of each route.",
    "idp_provider": "The identity provider (docs/guides/identity-providers/README.md).",
    "signout_redirect_url": "Users return here after sign-out; the provider must know it (post-logout redirect URI).",
    "databroker_storage_type": "Sessions are in a database below data_dir, so a restart signs nobody out.",
    "cookie_secret": "Made for this installation. To replace one without a sign-out: docs/operations/rotate-secrets.md.",
    "signing_key": "Signs what applications learn about people; they verify it with the keys at {sign_in_url}/.well-known/gate/jwks.json.",
    "admin_allowed_users": "Who enters the admin at {sign_in_url}/.gate/admin/",
    "metrics_address": "Prometheus reads /metrics here, `gate ready` asks /readyz, and `gate status` shows both.",
    "policy": "Routes are tried from top to bottom; the first that matches decides (docs/guides/policy.md).",
}
_ORDER = (
    *("authenticate_service_url", "address", "http_redirect_addr", "autocert", "insecure_server", "trusted_proxies", "certificate_file"),
    *("certificate_key_file", "idp_provider", "idp_provider_url", "idp_client_id", "idp_client_secret", "signout_redirect_url"),
    *("databroker_storage_type", "data_dir", "cookie_secret", "shared_secret", "signing_key", "admin_allowed_users", "metrics_address"),
    "policy",
)


def made_secrets() -> dict[str, str]:
    """Secrets of a new installation, as settings: base64 of 32 random bytes each, and a key on P-256."""
    pem = ec.generate_private_key(ec.SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    made = {name: base64.b64encode(secrets.token_bytes(32)).decode() for name in ("cookie_secret", "shared_secret")}
    return {**made, "signing_key": base64.b64encode(pem).decode()}


def configuration(answers: Answers, made: dict[str, str], data_dir: str | None = "data") -> str:
    """Text of the configuration that these answers give, YAML; complete where all questions were answered.  Raises UnusableAnswer.

    `data_dir` is None where the environment names it, as in a container.
    """
    settings = settings_of(answers) | made
    settings |= {"databroker_storage_type": "database", "metrics_address": "127.0.0.1:9090"}
    if data_dir is not None:
        settings["data_dir"] = data_dir
    if policy := settings.get("policy"):
        policy[0]["pass_identity_headers"] = True
    known = {"redirect_uri": "", "sign_in_url": ""}
    if "sign_in_url" in answers:
        known = {"redirect_uri": redirect_uri(answers), "sign_in_url": redirect_uri(answers).removesuffix(CALLBACK)}
        settings["signout_redirect_url"] = known["sign_in_url"] + SIGNED_OUT
    lines = [
        "# gate: made by `gate init`. A changed file takes over while gate runs; `gate check -config FILE` says what is wrong with it.",
        "# It holds secrets: its owner alone may read it. Each setting can be an environment variable instead (COOKIE_SECRET=...).",
    ]
    for key in _ORDER:
        if key not in settings:
            continue
        if comment := _COMMENTS.get(key):
            lines += ["", "# " + comment.format(**known)]
        lines += _written(key, settings[key])
    return "\n".join(lines) + "\n"


def _written(key: str, value: Any) -> Iterator[str]:
    if key == "policy":
        yield "policy:"
        for route in value:
            first, *others = [f"{name}: {_on_one_line(part)}" for name, part in route.items()]
            yield from (f"  - {first}", *(f"    {line}" for line in others))
    else:
        yield f"{key}: {_on_one_line(value)}"


def _on_one_line(value: Any) -> str:
    """Value as YAML; a scalar is quoted where it must be."""
    return yaml.safe_dump(value, default_flow_style=isinstance(value, list), allow_unicode=True, width=inf).splitlines()[0]


def write_new(path: Path, text: str) -> None:
    """Write a file that its owner alone may read.  FileExistsError where there is one, OSError; then nothing is left behind."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise
