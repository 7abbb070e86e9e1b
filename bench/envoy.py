"""What does `data_plane: envoy` cost and bring, against the embedded one in the same run?

    python -m bench.envoy

wrk -t1 -c32 over TLS with a valid session; nginx answers 1 KiB.  gate and its Envoy share one core, as the embedded plane and an Envoy
that only forwards have it.  Envoy that asks about each request, and that remembers (`envoy_remembers`), which is to have 0.55 of what bare
Envoy has (docs/envoy.md).
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import yaml

from bench.requests import Contender, load_in_turns, report
from bench.rig import HOST, child, free_port, gate_settings, signed_in_cookie, start_nginx, start_provider, wait_for
from proxy.envoy.bootstrap import TYPE, endpoint
from tests.support.certs import CertificateFiles, certificate_files


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=5)
    arguments = parser.parse_args()
    if missing := [command for command in ("wrk", "nginx") if shutil.which(command) is None]:
        sys.exit(f"missing: {', '.join(missing)} (apt-get install wrk nginx-light)")
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        certificates = certificate_files(directory, HOST)
        contenders = list(start_gates(stack, directory, start_nginx(stack, directory), certificates))
        load_in_turns(contenders, arguments.runs, arguments.seconds)
    report({contender.name: contender for contender in contenders})


def start_gates(stack: ExitStack, directory: Path, upstream: str, certificates: CertificateFiles) -> Iterator[Contender]:
    provider = start_provider(stack)
    tls = {"insecure_server": None, "certificate_file": str(certificates.certificate), "certificate_key_file": str(certificates.key)}
    yield start_bare_envoy(stack, directory, upstream, certificates)
    for name, plane, remembered in (("embedded", "embedded", 0), ("envoy asks", "envoy", 0), ("envoy remembers", "envoy", 1000)):
        port = free_port()
        home = directory / name.replace(" ", "-")
        home.mkdir()
        config = home / "config.yaml"
        own = {"data_plane": plane, "envoy_remembers": remembered, "proxy_log_level": "warn", **tls}
        settings = gate_settings(home, port, provider, upstream) | own
        config.write_text(yaml.safe_dump(settings))
        stack.enter_context(child([sys.executable, "manage.py", "rungate", "-config", str(config)], core=0, stdout=subprocess.DEVNULL))
        wait_for(port)
        headers = (f"Host: {HOST}", f"Cookie: {signed_in_cookie(port, 'https')}")
        yield Contender(name, port, headers, "https", "bare envoy" if remembered else "embedded" if plane == "envoy" else "")


def start_bare_envoy(stack: ExitStack, directory: Path, upstream: str, certificates: CertificateFiles) -> Contender:
    """Envoy with one route, which forwards all."""
    port, (host, upstream_port) = free_port(), upstream.removeprefix("http://").split(":")
    pair = {"certificate_chain": {"filename": str(certificates.certificate)}, "private_key": {"filename": str(certificates.key)}}
    tls = {"@type": f"{TYPE}extensions.transport_sockets.tls.v3.DownstreamTlsContext", "common_tls_context": {"tls_certificates": [pair]}}
    routes = [{"match": {"prefix": "/"}, "route": {"cluster": "upstream"}}]
    manager = {
        "@type": f"{TYPE}extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "bare",
        "http_filters": [{"name": "router", "typed_config": {"@type": f"{TYPE}extensions.filters.http.router.v3.Router"}}],
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": routes}]},
    }
    chain = {
        "filters": [{"name": "http", "typed_config": manager}],
        "transport_socket": {"name": "envoy.transport_sockets.tls", "typed_config": tls},
    }
    place = {"socket_address": {"address": "127.0.0.1", "port_value": port}}
    where = endpoint("upstream", {"socket_address": {"address": host, "port_value": int(upstream_port)}})
    static = {
        "listeners": [{"name": "bare", "address": place, "filter_chains": [chain]}],
        "clusters": [{"name": "upstream", "type": "STATIC", "load_assignment": where}],
    }
    config = directory / "bare-envoy.json"
    config.write_text(json.dumps({"static_resources": static}))
    command = [
        str(Path(sys.executable).parent / "envoy"),
        "-c",
        str(config),
        "--concurrency",
        "1",
        "--disable-hot-restart",
        "--log-level",
        "off",
    ]
    stack.enter_context(child(command, core=0, stdout=subprocess.DEVNULL))
    wait_for(port)
    return Contender("bare envoy", port, (f"Host: {HOST}",), "https", "")


if __name__ == "__main__":
    main()
