"""Envoy Gateway's configuration of Envoy: renders the objects in examples/envoy_gateway like its controller, as far as gate needs.

The controller needs a cluster. This follows the output of version 1.8: a filter per SecurityPolicy, enabled only on the routes of
its target, which have its context extensions; paths and headers by ClientTrafficPolicy; each PathPrefix ends at a slash.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from tests.support.certs import CertificateFiles
from tests.support.children import ROOT

EXAMPLES = ROOT / "examples" / "envoy_gateway"
TYPE = "type.googleapis.com/envoy.extensions."
MANAGER = TYPE + "filters.network.http_connection_manager.v3.HttpConnectionManager"
HTTP2 = {
    TYPE.removeprefix("type.googleapis.com/") + "upstreams.http.v3.HttpProtocolOptions": {
        "@type": TYPE + "upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {"http2_protocol_options": {}},
    }
}
Config = dict[str, Any]


@dataclass(frozen=True)
class GatewayPlace:
    """Addresses of the Envoy and of its clusters; `hosts` maps the example's names to those of the test."""

    port: int
    gate_port: int
    grpc_port: int
    app_port: int
    certificates: CertificateFiles
    hosts: Mapping[str, str]
    token: str


def objects() -> list[Config]:
    return [each for each in yaml.safe_load_all((EXAMPLES / "routes.yaml").read_text()) if each]


def _of(kind: str) -> list[Config]:
    return [each for each in objects() if each["kind"] == kind]


def configuration(place: GatewayPlace, route_ids: Mapping[str, str]) -> Config:
    """Return the bootstrap of the Envoy. `route_ids` are gate's, by path prefix; each has a policy like the example's."""
    filters: list[Config] = []
    hosts: dict[str, list[Config]] = {}
    (application,) = [route for route in _of("HTTPRoute") if route["metadata"]["namespace"] != "gate"]
    (policy,) = _of("SecurityPolicy")
    assert policy["spec"]["targetRefs"][0]["name"] == application["metadata"]["name"]
    for route in _of("HTTPRoute"):
        for hostname in route["spec"]["hostnames"] if route != application else ():
            hosts.setdefault(place.hosts[hostname], []).extend(_plain_routes(route))
    for number, (prefix, route_id) in enumerate(route_ids.items()):
        name = f"envoy.filters.http.ext_authz/securitypolicy/default/app{number}"
        filters.append({"name": name, "disabled": True, "typed_config": _ext_authz(policy["spec"]["extAuth"])})
        extensions = _extensions(policy["spec"]["extAuth"], place.token, route_id)
        per_route = {
            name: {"@type": TYPE + "filters.http.ext_authz.v3.ExtAuthzPerRoute", "check_settings": {"context_extensions": extensions}}
        }
        (hostname,) = application["spec"]["hostnames"]
        hosts[place.hosts[hostname]].append(_route(prefix, "application") | {"typed_per_filter_config": per_route})
    virtual = [{"name": host, "domains": [host], "routes": _by_path_length(routes)} for host, routes in hosts.items()]
    clusters = [_cluster("gate", place.gate_port), _cluster("application", place.app_port), _cluster("gate-grpc", place.grpc_port, HTTP2)]
    return {"static_resources": {"listeners": [_listener(place, filters, virtual)], "clusters": clusters}}


def _plain_routes(route: Config) -> list[Config]:
    matches = [match for rule in route["spec"]["rules"] for match in rule.get("matches", [{"path": {"type": "PathPrefix", "value": "/"}}])]
    assert all(match["path"]["type"] == "PathPrefix" for match in matches)
    return [_route(match["path"]["value"], "gate") for match in matches]


def _route(prefix: str, cluster: str) -> Config:
    match = {"prefix": "/"} if prefix == "/" else {"path_separated_prefix": prefix.rstrip("/")}
    return {"match": match, "route": {"cluster": cluster, "upgrade_configs": [{"upgrade_type": "websocket"}]}}


def _by_path_length(routes: list[Config]) -> list[Config]:
    return sorted(routes, key=lambda route: -len(route["match"].get("path_separated_prefix", "")))


def _ext_authz(settings: Config) -> Config:
    (backend,) = settings["grpc"]["backendRefs"]
    assert not set(settings) - {"grpc", "failOpen", "recomputeRoute", "statusOnError", "timeout", "contextExtensions"}
    return {
        "@type": TYPE + "filters.http.ext_authz.v3.ExtAuthz",
        "transport_api_version": "V3",
        "failure_mode_allow": settings["failOpen"],
        "clear_route_cache": settings["recomputeRoute"],
        "status_on_error": {"code": settings["statusOnError"]},
        "grpc_service": {
            "envoy_grpc": {"cluster_name": backend["name"], "authority": f"{backend['name']}.{backend['namespace']}:{backend['port']}"},
            "timeout": settings["timeout"],
        },
    }


def _extensions(settings: Config, token: str, route_id: str) -> dict[str, str]:
    """Return the context extensions: the token comes from a Secret, the route's id replaces the example's placeholder."""
    values = {"ValueRef": token, "Value": route_id}
    return {each["name"]: values[each["type"]] for each in settings["contextExtensions"]}


def _listener(place: GatewayPlace, filters: list[Config], hosts: list[Config]) -> Config:
    (traffic,) = [each["spec"] for each in _of("ClientTrafficPolicy")]
    actions = {"KeepUnchanged": "KEEP_UNCHANGED", "RejectRequest": "REJECT_REQUEST"}
    router = {
        "name": "envoy.filters.http.router",
        "typed_config": {"@type": TYPE + "filters.http.router.v3.Router", "suppress_envoy_headers": True},
    }
    manager = {
        "@type": MANAGER,
        "stat_prefix": "https",
        "use_remote_address": True,
        "normalize_path": True,
        "merge_slashes": not traffic["path"]["disableMergeSlashes"],
        "path_with_escaped_slashes_action": actions[traffic["path"]["escapedSlashesAction"]],
        "server_header_transformation": "PASS_THROUGH",
        "common_http_protocol_options": {"headers_with_underscores_action": actions[traffic["headers"]["withUnderscoresAction"]]},
        "http_filters": [*filters, router],
        "route_config": {"ignore_port_in_host_matching": True, "virtual_hosts": hosts},
    }
    pair = {
        "certificate_chain": {"filename": str(place.certificates.certificate)},
        "private_key": {"filename": str(place.certificates.key)},
    }
    tls = {
        "@type": TYPE + "transport_sockets.tls.v3.DownstreamTlsContext",
        "common_tls_context": {"alpn_protocols": ["h2", "http/1.1"], "tls_certificates": [pair]},
    }
    chain = {
        "transport_socket": {"name": "envoy.transport_sockets.tls", "typed_config": tls},
        "filters": [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}],
    }
    return {"name": "https", "address": _address(place.port), "filter_chains": [chain], "per_connection_buffer_limit_bytes": 32768}


def _cluster(name: str, port: int, options: Config | None = None) -> Config:
    endpoint = {"lb_endpoints": [{"endpoint": {"address": _address(port)}}]}
    loaded = {"cluster_name": name, "endpoints": [endpoint]}
    return {"name": name, "type": "STATIC", "load_assignment": loaded} | ({"typed_extension_protocol_options": options} if options else {})


def _address(port: int) -> Config:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}
