"""What does Envoy know when it starts?  Where gate is, and which files say the rest."""

from pathlib import Path
from typing import Any

Json = dict[str, Any]

TYPE = "type.googleapis.com/envoy."
# Clusters that lead to gate itself: who judges each request, and who answers what Envoy does not carry.
JUDGE, GATE = "gate-judge", "gate"
LISTENERS, CLUSTERS, CERTIFICATES = "listeners.json", "clusters.json", "certificates.json"
# Of streams and connections to gate itself; what bounds them is how many clients there are.
_UNBOUNDED = {"max_connections": 1_000_000, "max_pending_requests": 1_000_000, "max_requests": 1_000_000, "max_retries": 0}
_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"


def bootstrap(files: Path, judge: Path, gate: Path, admin: Path) -> Json:
    """`files` is the directory of the other resources; the rest are Unix sockets."""
    return {
        "node": {"id": "gate", "cluster": "gate"},
        # 0o600: who may connect may also stop Envoy.
        "admin": {"address": {"pipe": {"path": str(admin), "mode": 0o600}}},
        "dynamic_resources": {"lds_config": watched(files, LISTENERS), "cds_config": watched(files, CLUSTERS)},
        "static_resources": {"clusters": [own_cluster(JUDGE, judge, speaks_http2=True), own_cluster(GATE, gate)]},
    }


def watched(files: Path, name: str) -> Json:
    """Envoy reads it again when another file takes its name."""
    return {
        "path_config_source": {"path": str(files / name), "watched_directory": {"path": str(files)}},
        "resource_api_version": "V3",
        "initial_fetch_timeout": "0s",
    }


def own_cluster(name: str, path: Path, *, speaks_http2: bool = False) -> Json:
    protocol: Json = {"http2_protocol_options": {}} if speaks_http2 else {"http_protocol_options": {}}
    options = {"@type": f"{TYPE}{_OPTIONS.removeprefix('envoy.')}", "explicit_http_config": protocol}
    if not speaks_http2:
        # gate closes idle connections itself; a request must not meet one that is about to close.
        options["common_http_protocol_options"] = {"idle_timeout": "4s"}
    return {
        "name": name,
        "type": "STATIC",
        "connect_timeout": "5s",
        "circuit_breakers": {"thresholds": [_UNBOUNDED]},
        "typed_extension_protocol_options": {_OPTIONS: options},
        "load_assignment": endpoint(name, {"pipe": {"path": str(path)}}),
    }


def endpoint(cluster: str, address: Json) -> Json:
    return {"cluster_name": cluster, "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}]}
