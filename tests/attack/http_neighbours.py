"""Real proxies beside gate, which read HTTP in their own way: nginx and Envoy, in front of it, behind it, and alone."""

import json
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import which

from tests.support.children import Child, free_port

# Each request that a neighbour carries gets one of these, unlike all others; what a body smuggled past it has none.
FRONT = b"X-Front"

_NGINX = """daemon off; master_process off; worker_processes 1; pid {directory}/nginx.pid; error_log stderr crit;
events {{ worker_connections 8192; }}
http {{
  access_log off; types {{ }} default_type text/plain; client_max_body_size 0; server_tokens off; large_client_header_buffers 8 128k;
  client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy; fastcgi_temp_path {directory}/fastcgi;
  uwsgi_temp_path {directory}/uwsgi; scgi_temp_path {directory}/scgi;
  proxy_cache_path {directory}/cache keys_zone=pages:8m;
  proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $http_host; proxy_set_header X-Front $request_id;
  proxy_request_buffering off; proxy_next_upstream off;
{servers}
}}
"""
# Idle connections end sooner than gate ends them: who writes into one that is just being closed, and asks no second time, answers 502.
_NGINX_SERVER = """
  upstream to{number} {{ server 127.0.0.1:{port}; keepalive 32; keepalive_timeout 2s; }}
  server {{ listen 127.0.0.1:{listen}; location / {{ proxy_pass http://to{number};{more} }} }}
"""


@dataclass(frozen=True)
class Server:
    """`more`: further lines of nginx's configuration."""

    to: int
    more: str = ""


@contextmanager
def nginx(directory: Path, *servers: Server) -> Iterator[list[int]]:
    """The ports on which it listens, one for each server."""
    directory.mkdir()
    ports = [free_port() for _ in servers]
    written = "".join(
        _NGINX_SERVER.format(number=number, port=server.to, listen=port, more=server.more)
        for number, (server, port) in enumerate(zip(servers, ports, strict=True))
    )
    config = directory / "nginx.conf"
    config.write_text(_NGINX.format(directory=directory, servers=written))
    with Child(which("nginx") or "/usr/sbin/nginx", "-e", "stderr", "-p", directory, "-c", config) as child:
        child.wait_for(lambda: all(map(_answers, ports)), "nginx listens")
        yield ports


@contextmanager
def envoy(directory: Path, *servers: Server) -> Iterator[list[int]]:
    directory.mkdir()
    ports = [free_port() for _ in servers]
    config = directory / "envoy.json"
    config.write_text(json.dumps(_envoy_config(servers, ports)))
    options = ("--disable-hot-restart", "--concurrency", "1", "--log-level", "critical")
    with Child(Path(sys.executable).parent / "envoy", "-c", config, *options) as child:
        child.wait_for(lambda: all(map(_answers, ports)), "Envoy listens", timeout=40)
        yield ports


def _answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def _envoy_config(servers: tuple[Server, ...], ports: list[int]) -> dict:
    pairs = list(enumerate(zip(servers, ports, strict=True)))
    listeners = [{"name": f"listener{number}", "address": _address(port), "filter_chains": [_chain(number)]} for number, (_, port) in pairs]
    clusters = [_cluster(number, server.to) for number, (server, _) in pairs]
    return {"static_resources": {"listeners": listeners, "clusters": clusters}}


def _chain(number: int) -> dict:
    router = {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}
    mark = {
        "header": {"key": FRONT.decode(), "value": "%STREAM_ID%"},
        "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
    }
    manager = {
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": f"to{number}",
        "common_http_protocol_options": {"max_headers_count": 200},  # 100 of the client's, and what gate adds
        "http_filters": [{"name": "envoy.filters.http.router", "typed_config": router}],
        "route_config": {
            "request_headers_to_add": [mark],
            "virtual_hosts": [
                {"name": "all", "domains": ["*"], "routes": [{"match": {"prefix": ""}, "route": {"cluster": f"to{number}"}}]}
            ],
        },
    }
    return {"filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]}


def _cluster(number: int, port: int) -> dict:
    endpoints = [{"lb_endpoints": [{"endpoint": {"address": _address(port)}}]}]
    limits = {"thresholds": [{"max_connections": 10_000, "max_pending_requests": 10_000, "max_requests": 10_000}]}
    # Gate closes idle connections, too: who writes into one that is just being closed answers 503.
    options = {
        "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
        "common_http_protocol_options": {"idle_timeout": "2s"},
        "explicit_http_config": {"http_protocol_options": {}},
    }
    return {
        "typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": options},
        "name": f"to{number}",
        "type": "STATIC",
        "circuit_breakers": limits,
        "load_assignment": {"cluster_name": f"to{number}", "endpoints": endpoints},
    }


def _address(port: int) -> dict:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}
