"""gate behind a front proxy, started from the files in examples/forward_auth. The proxy terminates TLS; gate listens on loopback."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.support import jobs
from tests.support.certs import CertificateFiles, certificate_files
from tests.support.children import ROOT, Child, free_port, wait_until
from tests.support.gate import EverythingOnLoopback, GateBuilder, RunningGate
from tests.support.traefik import Traefik

EXAMPLES = ROOT / "examples" / "forward_auth"
APP, AUTHENTICATE, FORWARD = "app.localhost", "authenticate.localhost", "forward.localhost"


class _PlainGate(RunningGate):
    def _answers(self) -> bool:
        try:
            address = self.builder.settings["address"]
            return httpx.get(f"http://{address}/ping", headers={"Host": AUTHENTICATE}, trust_env=False).is_success
        except httpx.TransportError:
            return False


class _BehindBuilder(GateBuilder):
    """Builder of a gate whose URLs have the front proxy's port."""

    def __init__(self, provider_url: str, gate_port: int):
        super().__init__(provider_url)
        self.gate_port = gate_port
        self.setting(address=f"127.0.0.1:{gate_port}", insecure_server=True, certificate_file=None, certificate_key_file=None)

    def start_with(self, directory: Path, certificates: CertificateFiles) -> RunningGate:
        return _PlainGate(self, self.write(directory, certificates), certificates)


@dataclass(frozen=True)
class Front:
    """gate and a front proxy: `url(path)` is a URL of the application, `port` the front proxy's, `gate.log` gate's log.

    `unauthorized` is the status for clients without a session, because some proxies redirect each 401 to sign-in.
    """

    port: int
    gate: RunningGate
    gate_port: int
    certificates: CertificateFiles
    unauthorized: int = 401

    @property
    def output(self) -> str:
        return self.gate.child.output

    def url(self, path: str = "/", host: str = APP) -> str:
        return f"https://{host}:{self.port}{path}"

    def client(self, **options: Any) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=EverythingOnLoopback(verify=self.certificates.client_context(), trust_env=False), **options)


@dataclass(frozen=True)
class Substitutions:
    """Values with which an example runs here instead of in production."""

    directory: Path
    port: int
    gate_port: int
    app_port: int
    certificates: CertificateFiles

    def fill(self, name: str, **more: str) -> Path:
        """Return the example with these names. Every replaced name must be present."""
        text = (EXAMPLES / name).read_text()
        replaced = {
            **more,
            "https://app.example.com": f"https://{APP}:{self.port}",
            "https://authenticate.example.com": f"https://{AUTHENTICATE}:{self.port}",
            "app.example.com": APP,
            "authenticate.example.com": AUTHENTICATE,
            "forward.example.com": FORWARD,
            "127.0.0.1:8443": f"127.0.0.1:{self.gate_port}",
            "127.0.0.1:8080": f"127.0.0.1:{self.app_port}",
            "/etc/ssl/example/fullchain.pem": str(self.certificates.certificate),
            "/etc/ssl/example/privkey.pem": str(self.certificates.key),
        }
        for old, new in replaced.items():
            if old in more:
                assert old in text, f"{old!r} is not in {name}"
            text = text.replace(old, new)
        path = self.directory / name
        path.write_text(text)
        return path


@contextmanager
def front(
    directory: Path,
    provider_url: str,
    app_url: str,
    start: Callable[[Substitutions, ExitStack], None],
    *,
    first: Sequence[dict[str, Any]] = (),
    unauthorized: int = 401,
    **settings: Any,
) -> Iterator[Front]:
    """Start gate, and the proxy of `start` in front of it. alice's group can access the application, bob's can't.

    `first` are the keys of routes of the application that precede the others.
    """
    port, gate_port = free_port(), free_port()
    builder = _BehindBuilder(provider_url, gate_port)
    builder.port = port
    builder.setting(authenticate_service_url=f"https://{AUTHENTICATE}:{port}", forward_auth_url=f"http://{FORWARD}")
    builder.setting(trusted_proxies=["127.0.0.1/32"], groups_claim="groups", jwt_claims_headers=["email", "groups"], **settings)
    for keys in first:
        builder.route(APP, to=app_url, **keys)
    builder.route(APP, to=app_url, prefix="/anybody/", allow_any_authenticated_user=True, cors_allow_preflight=True)
    headers = {"identity_headers": "remote-user", "set_request_headers": {"X-Webauth-User": "${user}", "X-Forwarded-Login": "${user}"}}
    builder.route(APP, to=app_url, prefix="/told/", allow_any_authenticated_user=True, **headers)
    programs = {"bearer_token": "idp_id_token", "allowed_users": ["oidc/alice"], "pass_identity_headers": True}
    builder.route(APP, to=app_url, prefix="/programs/", **programs)
    builder.route(APP, to=app_url, prefix="/jobs/", **jobs.route_keys(directory))
    builder.route(APP, to=app_url, allowed_groups=["engineering"], pass_identity_headers=True, allow_websockets=True)
    certificates = certificate_files(directory, AUTHENTICATE, APP, FORWARD)
    place = Substitutions(directory, port, gate_port, int(app_url.rpartition(":")[2]), certificates)
    with ExitStack() as stack:
        gate = stack.enter_context(builder.start_with(directory, certificates))
        start(place, stack)
        found = Front(port, gate, gate_port, certificates, unauthorized)
        _wait_until_it_answers(found)
        yield found


def _wait_until_it_answers(found: Front) -> None:
    def answers() -> bool:
        try:
            with httpx.Client(verify=found.certificates.client_context(), trust_env=False, timeout=5) as client:
                url, host = f"https://127.0.0.1:{found.port}/", f"{APP}:{found.port}"
                request = client.build_request("GET", url, headers={"Host": host, "Accept": "text/html"}, extensions={"sni_hostname": APP})
                return client.send(request).status_code == 302
        except httpx.TransportError:
            return False

    wait_until(answers, "the front proxy answers", 15)


def nginx(place: Substitutions, stack: ExitStack) -> None:
    configuration = place.fill(
        "nginx.conf",
        **{
            "listen 443": f"listen 127.0.0.1:{place.port}",
            "Host app.example.com;": f"Host {APP}:{place.port};",
            "Host authenticate.example.com;": f"Host {AUTHENTICATE}:{place.port};",
            "/run/nginx.pid": f"{place.directory}/nginx.pid",
            "/var/log/nginx/error.log": "stderr",
            "access_log off;": "access_log off; "
            + " ".join(f"{kind}_temp_path {place.directory}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")),
        },
    )
    stack.enter_context(Child("nginx", "-e", "stderr", "-p", place.directory, "-c", configuration, "-g", "daemon off;"))


def caddy(place: Substitutions, stack: ExitStack) -> None:
    configuration = place.fill("Caddyfile", **{"admin off": "admin off\n\tdefault_bind 127.0.0.1"})
    stack.enter_context(Child("caddy", "run", "--config", configuration, "--adapter", "caddyfile"))


def haproxy(place: Substitutions, stack: ExitStack) -> None:
    both = place.directory / "both.pem"
    both.write_bytes(place.certificates.certificate.read_bytes() + place.certificates.key.read_bytes())
    script = place.fill("gate.lua")
    names = {"lua-load gate.lua": f"lua-load {script}", "bind :443": f"bind 127.0.0.1:{place.port}", "/etc/ssl/example/both.pem": str(both)}
    names |= {f"set-header Host {host}.example.com": f"set-header Host {host}.localhost:{place.port}" for host in ("app", "authenticate")}
    stack.enter_context(Child("haproxy", "-db", "-f", place.fill("haproxy.cfg", **names)))


def apache(place: Substitutions, stack: ExitStack) -> None:
    listen = f"127.0.0.1:{free_port()}"
    origin = f"https://{APP}:{place.port}"
    arguments = ("--listen", listen, "--gate", f"127.0.0.1:{place.gate_port}", "--forward-auth-host", FORWARD, "--origin", origin)
    stack.enter_context(Child.python(EXAMPLES / "apache_authorizer.py", *arguments))
    names = {
        "Listen 443": f"Listen 127.0.0.1:{place.port}",
        "*:443": f"*:{place.port}",
        "set Host app.example.com": f"set Host {APP}:{place.port}",
        "set Host authenticate.example.com": f"set Host {AUTHENTICATE}:{place.port}",
        "/run/apache2/apache2.pid": f"{place.directory}/apache2.pid",
        "/var/log/apache2/error.log": "/dev/stderr",
        "127.0.0.1:9010": listen,
    }
    stack.enter_context(Child("apache2", "-X", "-f", place.fill("apache.conf", **names)))


def traefik(place: Substitutions, stack: ExitStack) -> None:
    names = {"forward.example.com:8443": f"{FORWARD}:{place.gate_port}"}
    stack.enter_context(Traefik(place.fill("traefik.yaml", **names), place.port))
