"""An operator's Envoy that uses gate by ext_authz, as in examples/ext_authz or examples/envoy_gateway. It terminates TLS."""

import base64
import json
import secrets
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from config.loader import load_options
from tests.support import jobs
from tests.support.certs import CertificateFiles, certificate_files
from tests.support.children import ROOT, Child, free_port
from tests.support.client_certificates import Issued, authority
from tests.support.envoy_gateway import GatewayPlace, configuration
from tests.support.fork_server import manage
from tests.support.gate import EverythingOnLoopback

JOBS_ROUTE = """                        - match: { prefix: /jobs/ }
                          route: { cluster: application }
                          typed_per_filter_config:
                            envoy.filters.http.ext_authz:
                              "@type": type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthzPerRoute
                              check_settings: { context_extensions: { gate_route: ROUTE-OF-JOBS } }
"""
EXAMPLES = ROOT / "examples" / "ext_authz"
APP, AUTHENTICATE = "app.localhost", "authenticate.localhost"


@dataclass(frozen=True)
class ExternalEnvoy:
    """The Envoy. `port` is its port; `gate` can be restarted; `clients` issues certificates that /certified/ requires."""

    directory: Path
    port: int
    gate: list[Child]
    certificates: CertificateFiles
    clients: Issued
    unauthorized: int = 401

    @property
    def output(self) -> str:
        return self.gate[-1].output

    def url(self, path: str = "/", host: str = APP) -> str:
        return f"https://{host}:{self.port}{path}"

    def client(self, *presented: Issued, **options: Any) -> httpx.AsyncClient:
        context = self.certificates.client_context()
        if presented:
            presented[0].present_in(context, self.directory, *presented[1:])
        return httpx.AsyncClient(transport=EverythingOnLoopback(verify=context, trust_env=False), **options)

    def begin(self) -> None:
        child = manage("rungate", "-config", self.directory / "gate.yaml")
        self.gate.append(child)
        child.wait_for_line("gate is ready")
        child.wait_for(self._answers, "the Envoy is answered")

    def end(self) -> None:
        self.gate[-1].stop(signal.SIGKILL)

    def _answers(self) -> bool:
        try:
            with httpx.Client(verify=self.certificates.client_context(), trust_env=False, timeout=5) as client:
                url, host = f"https://127.0.0.1:{self.port}/", f"{APP}:{self.port}"
                request = client.build_request("GET", url, headers={"Host": host, "Accept": "text/html"}, extensions={"sni_hostname": APP})
                return client.send(request).status_code == 302
        except httpx.TransportError:
            return False


def filled(text: str, names: dict[str, str]) -> str:
    """Return the example with its lines for client certificates, and with these names. Every replaced name must be present."""
    text = text.replace("#: ", "").replace("#:\n", "")
    for old, new in names.items():
        assert old in text, old
        text = text.replace(old, new)
    return text


@contextmanager
def external_envoy(
    directory: Path, provider_url: str, app_url: str, *, envoy_names: dict[str, str] | None = None, is_of_gateway: bool = False
) -> Iterator[ExternalEnvoy]:
    """Start gate and an Envoy.

    alice's group can access the application; bob can access /anybody/ and, with a certificate, /certified/; jobs can access /jobs/.
    `is_of_gateway`: configured by Envoy Gateway, which does not forward client certificates.
    """
    port, gate_port, grpc_port = free_port(), free_port(), free_port()
    certificates, clients = certificate_files(directory, AUTHENTICATE, APP), authority()
    client_authority = directory / "clients.pem"
    client_authority.write_bytes(clients.pem)
    token, app_port = secrets.token_urlsafe(32), app_url.rpartition(":")[2]
    of_jobs = {"from": f"https://{APP}:{port}", "prefix": "/jobs/", "to": app_url, **jobs.route_keys(directory)}
    shared = {"/etc/ssl/example/clients.pem": str(client_authority), "PUT-A-TOKEN-HERE": token}
    gate_names = shared | {
        "https://app.example.com": f"https://{APP}:{port}",
        "https://authenticate.example.com": f"https://{AUTHENTICATE}:{port}",
        "127.0.0.1:8443": f"127.0.0.1:{gate_port}",
        "127.0.0.1:5443": f"127.0.0.1:{grpc_port}",
        "127.0.0.1:8080": f"127.0.0.1:{app_port}",
        "https://idp.example.com": provider_url,
        "PUT-A-SECRET-HERE": _secret(),
        "PUT-ANOTHER-SECRET-HERE": _secret(),
        "    allowed_groups: [engineering]\n": "    allowed_groups: [engineering]\n    bearer_token: idp_id_token\n",
        "policy:\n": f"policy:\n  - {json.dumps(of_jobs)}\n",
        "idp_client_id: gate": "idp_client_id: gate-tests\nidp_scopes: [openid, profile, email]",
        "the-secret-that-the-provider-gave-you": "not a secret",
    }
    gate_file = directory / "gate.yaml"
    gate_file.write_text(filled((EXAMPLES / "gate.yaml").read_text(), gate_names) + f"\ndata_dir: {directory / 'data'}\n")
    of_jobs_id, public, certified, everything_else = (route.id for route in load_options(gate_file, {}).policy)
    before_public = "                        - match: { prefix: /anybody/ }\n"
    names = shared | {
        before_public: JOBS_ROUTE + before_public,
        "ROUTE-OF-JOBS": of_jobs_id,
        "ROUTE-OF-ANYBODY": public,
        "ROUTE-OF-CERTIFIED": certified,
        "ROUTE-OF-EVERYTHING-ELSE": everything_else,
        "address: 0.0.0.0, port_value: 443 ": f"address: 127.0.0.1, port_value: {port} ",
        "port_value: 5443": f"port_value: {grpc_port}",
        "port_value: 8443": f"port_value: {gate_port}",
        "port_value: 8080": f"port_value: {app_port}",
        "app.example.com": APP,
        "authenticate.example.com": AUTHENTICATE,
        "/etc/ssl/example/fullchain.pem": str(certificates.certificate),
        "/etc/ssl/example/privkey.pem": str(certificates.key),
        **(envoy_names or {}),
    }
    envoy_file = directory / "envoy.yaml"
    if is_of_gateway:
        hosts = {"app.example.com": APP, "authenticate.example.com": AUTHENTICATE}
        place = GatewayPlace(port, gate_port, grpc_port, int(app_port), certificates, hosts, token)
        ids = {"/jobs/": of_jobs_id, "/anybody/": public, "/certified/": certified, "/": everything_else}
        envoy_file.write_text(yaml.safe_dump(configuration(place, ids)))
    else:
        envoy_file.write_text(filled((EXAMPLES / "envoy.yaml").read_text(), names))
    running = ExternalEnvoy(directory, port, [], certificates, clients)
    arguments = ("--disable-hot-restart", "--concurrency", "1", "--log-level", "error")
    try:
        with Child(Path(sys.executable).parent / "envoy", "-c", envoy_file, *arguments):
            running.begin()
            yield running
    finally:
        for child in running.gate:
            child.__exit__()


def _secret() -> str:
    return base64.b64encode(secrets.token_bytes(32)).decode()
