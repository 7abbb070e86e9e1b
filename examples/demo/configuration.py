"""Files of the demo between runs (secrets, authority, certificate), and the configuration that it writes for gate."""

import base64
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import yaml
from cryptography.hazmat.primitives.asymmetric import ec

from examples.demo.certificates import Authority, is_still_valid, private_key_pem, write_private
from examples.demo.people import ALICE, AUTHENTICATE_HOST, ECHO, ECHO_AUTHORITY, HOSTS, SITES, USERS


@dataclass(frozen=True, slots=True)
class Ports:
    gate: int
    provider: int
    address: str = "127.0.0.1"  # 0.0.0.0 in a container, whose ports are published

    @property
    def suffix(self) -> str:
        return "" if self.gate == 443 else f":{self.gate}"

    def url(self, host: str, path: str = "/") -> str:
        return f"https://{host}{self.suffix}{path}"

    @property
    def provider_url(self) -> str:
        return f"http://localhost:{self.provider}"


def default_folder(environ: Mapping[str, str]) -> Path:
    """A folder of the demo's own inside gate's data directory, so that it never meets a real installation's files."""
    data_home = environ.get("XDG_DATA_HOME") or Path(environ.get("HOME") or Path.home()) / ".local" / "share"
    return Path(data_home) / "gate" / "demo"


@dataclass(frozen=True, slots=True)
class Folder:
    """Everything in it is for its owner's eyes only."""

    path: Path

    @classmethod
    def prepare(cls, path: Path, now: datetime | None = None) -> "Folder":
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.mkdir(exist_ok=True, mode=0o700)
        path.chmod(0o700)
        folder = cls(path)
        folder._ensure_certificates(now or datetime.now(UTC))
        return folder

    @property
    def ca_file(self) -> Path:
        return self.path / "ca.pem"

    @property
    def certificate_file(self) -> Path:
        return self.path / "certificate.pem"

    @property
    def key_file(self) -> Path:
        return self.path / "certificate-key.pem"

    @property
    def config_file(self) -> Path:
        return self.path / "config.yaml"

    def log_file(self, name: str) -> Path:
        return self.path / f"{name}.log"

    def secret(self, name: str) -> str:
        """32 random bytes in base64, made at the first run."""
        return self._load_or_create(f"{name}.secret", lambda: base64.b64encode(secrets.token_bytes(32))).decode()

    def signing_key(self) -> str:
        pem = self._load_or_create("signing-key.pem", lambda: private_key_pem(ec.generate_private_key(ec.SECP256R1())))
        return base64.b64encode(pem).decode()

    def _load_or_create(self, name: str, make) -> bytes:
        file = self.path / name
        if not file.exists():
            write_private(file, make())
        return file.read_bytes()

    def _ensure_certificates(self, now: datetime) -> None:
        ca_key_file = self.path / "ca-key.pem"
        if not (self.ca_file.exists() and ca_key_file.exists()):
            authority = Authority.create("gate demo authority (this machine only)", permitted=("localhost",), now=now)
            write_private(ca_key_file, private_key_pem(authority.key))
            write_private(self.ca_file, authority.certificate_pem)
        authority = Authority.load(self.ca_file, ca_key_file)
        pair = (self.certificate_file, self.key_file)
        if not all(file.exists() for file in pair) or not is_still_valid(self.certificate_file.read_bytes(), HOSTS, authority, now):
            issued = authority.issue(*HOSTS, now=now)
            write_private(self.key_file, issued.key_pem)
            write_private(self.certificate_file, issued.certificate_pem + authority.certificate_pem)


def write_config(folder: Folder, ports: Ports, upstream_ports: Mapping[str, int]) -> Path:
    config = {
        "address": f"{ports.address}:{ports.gate}",
        "grpc_address": "",  # no other service connects, and two demos may run
        "data_dir": str(folder.path),
        "certificate_file": str(folder.certificate_file),
        "certificate_key_file": str(folder.key_file),
        "shared_secret": folder.secret("shared"),
        "cookie_secret": folder.secret("cookie"),
        "signing_key": folder.signing_key(),
        "authenticate_service_url": ports.url(AUTHENTICATE_HOST, ""),
        "idp_provider": "oidc",
        "idp_provider_url": ports.provider_url,
        "idp_client_id": "gate-demo",
        "idp_client_secret": folder.secret("client"),
        "idp_scopes": ["openid", "profile", "email"],
        "signout_redirect_url": ports.url("public.localhost"),
        "directory_file": str(_write_directory(folder)),
        "admin_allowed_users": [ALICE.email],
        "jwt_claims_headers": ["email", "groups"],
        "oauth_dynamic_registration": True,  # any MCP client of this machine may register itself
        # The defaults less Strict-Transport-Security, which would outlive the demo in the browser for every port of these names.
        "headers": {"X-Content-Type-Options": "nosniff", "X-Frame-Options": "SAMEORIGIN"},
        "policy": [*(_route(site, ports, upstream_ports[site.name]) for site in SITES), _echo_route(upstream_ports[ECHO])],
    }
    text = "# Written by `make demo` at each start; changes are lost.\n" + yaml.safe_dump(config, sort_keys=False)
    write_private(folder.config_file, text.encode())
    return folder.config_file


def _write_directory(folder: Folder) -> Path:
    """Users and groups as a company's directory would have them; gate notices when the file changes."""
    users = [{"id": user.sub, "email": user.email, "name": user.full_name, "groups": list(user.groups)} for user in USERS]
    names = sorted({group for user in USERS for group in user.groups})
    groups = [{"id": name, "name": f"{name.capitalize()} team"} for name in names]
    path = folder.path / "directory.yaml"
    write_private(path, yaml.safe_dump({"users": users, "groups": groups}, sort_keys=False).encode())
    return path


def _route(site, ports: Ports, upstream_port: int) -> dict[str, object]:
    portal_settings = {"title": site.title, "description": f"{site.about[:1].upper()}{site.about[1:]}", "icon": site.icon}
    route = {"from": ports.url(site.host, ""), "to": f"http://127.0.0.1:{upstream_port}", **site.access, **portal_settings}
    return {**route, "pass_identity_headers": True} if site.passes_identity else route


def _echo_route(port: int) -> dict[str, object]:
    route = {"from": f"tcp+https://{ECHO_AUTHORITY}", "to": f"tcp://127.0.0.1:{port}", "allow_any_authenticated_user": True}
    return {**route, "title": "Echo", "description": "Echoes what a program sends over TCP", "icon": "terminal"}
