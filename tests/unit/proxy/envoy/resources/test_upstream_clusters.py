"""An upstream is reached by Envoy as gate itself would reach it: same address, same authorities, same name in its certificate."""

import base64
import json
import random
from pathlib import Path
from typing import Any

import pytest

from config.options import Options
from config.routes.route import Route
from proxy.envoy.resources import upstream_clusters
from proxy.envoy.resources.bootstrap import FAILOVER
from proxy.envoy.resources.upstream_clusters import EnvoyClusters
from proxy.upstreams.outgoing_request import Upstream
from proxy.upstreams.route_statistics import stat_name
from tests.support.client_certificates import authority
from tests.support.options import make_options

CA = authority("upstreams")


def options(directory: Path, *routes: dict[str, Any]) -> Options:
    policy = [{"from": f"https://app{number}.example.com", **route} for number, route in enumerate(routes)]
    return make_options(directory, policy=policy, data_plane="envoy")


def named(made: EnvoyClusters, chosen: Options, number: int = 0, *, position: int = 0) -> dict[str, Any]:
    route = chosen.policy[number]
    name = made.name(Upstream.build(route, position), route)
    assert name is not None
    cluster: dict[str, Any] = json.loads(made.resources[name])
    return cluster


def test_measured_routes_share_clusters_only_by_name(tmp_path: Path) -> None:
    to = {"to": "http://10.0.0.1:8001"}
    chosen = options(tmp_path, to, to, {"name": "a.b", **to}, {"name": "a.b", **to})
    assert len(EnvoyClusters(chosen.policy, "AUTO").resources) == 1
    made = EnvoyClusters(chosen.policy, "AUTO", by_route=True)
    names = [named(made, chosen, number)["alt_stat_name"] for number in range(4)]
    assert names[2] == names[3] == stat_name("a.b")
    assert len(set(names)) == len(made.resources) == 3


def address(cluster: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]["address"]["socket_address"]
    return found


def test_each_upstream_has_a_cluster(tmp_path: Path) -> None:
    http2 = {"to": "http://10.0.0.1:8001", "upstream_http2": True}
    first_of, second_of = {"to": "http://10.0.0.1:8001"}, {"to": "http://app.internal"}
    chosen = options(tmp_path, first_of, http2, second_of)
    made = EnvoyClusters(chosen.policy, "AUTO")
    assert len(made.resources) == 3
    first, third, second = (named(made, chosen, number) for number in range(3))
    assert (first["type"], address(first)) == ("STATIC", {"address": "10.0.0.1", "port_value": 8001})
    assert (second["type"], second["dns_lookup_family"], address(second)["address"]) == ("LOGICAL_DNS", "ALL", "app.internal")
    assert address(third) == address(first)
    spoken = [each["explicit_http_config"] for made in (first, third) for each in made["typed_extension_protocol_options"].values()]
    assert [list(each) for each in spoken] == [["http_protocol_options"], ["http2_protocol_options"]]
    assert "transport_socket" not in first


def test_failover_cluster_only_with_several_http1_upstreams(tmp_path: Path) -> None:
    several = ["http://10.0.0.1:8001", "http://app.internal"]
    chosen = options(tmp_path, {"to": several}, {"to": several[0]}, {"to": several, "upstream_http2": True})
    made = EnvoyClusters(chosen.policy, "AUTO")
    alone, http2 = named(made, chosen, 1), named(made, chosen, 2, position=1)
    replaced = named(made, chosen)
    members = replaced["cluster_type"]["typed_config"]["clusters"]
    assert members == [{"name": alone["name"]}, {"name": FAILOVER}]
    assert address(http2)["address"] == "app.internal"
    assert EnvoyClusters(chosen.policy, "AUTO", previous=made).resources == made.resources


def test_existing_descriptors_are_moved(tmp_path: Path) -> None:
    one, failover, rules = {"to": "https://10.0.0.1"}, {"to": "https://10.0.0.2"}, {"to": "https://10.0.0.1", "tls_skip_verify": True}
    first = EnvoyClusters(options(tmp_path, one, failover).policy, "AUTO")
    changed = options(tmp_path, one, rules)
    second, rebuilt = EnvoyClusters(changed.policy, "AUTO", previous=first), EnvoyClusters(changed.policy, "AUTO")
    assert second.resources == rebuilt.resources
    assert len(first.resources.keys() & second.resources.keys()) == 1
    assert named(second, changed, 1)["transport_socket"] != named(second, changed)["transport_socket"]
    of_another_family = EnvoyClusters(options(tmp_path, {"to": "https://a.internal"}).policy, "V6_ONLY")
    again = options(tmp_path, {"to": "https://a.internal"})
    assert named(EnvoyClusters(again.policy, "AUTO", previous=of_another_family), again)["dns_lookup_family"] == "ALL"


def test_slow_streams_do_not_block_others(tmp_path: Path) -> None:
    chosen = options(tmp_path, {"to": "http://10.0.0.1:8001", "upstream_http2": True})
    made = named(EnvoyClusters(chosen.policy, "AUTO"), chosen)
    (protocol,) = made["typed_extension_protocol_options"].values()
    http2 = protocol["explicit_http_config"]["http2_protocol_options"]
    assert http2["initial_connection_window_size"] >= http2["max_concurrent_streams"] * http2["initial_stream_window_size"]
    assert made["per_connection_buffer_limit_bytes"] == http2["initial_stream_window_size"] == 256 * 1024


def test_cluster_name_is_stable_across_configurations(tmp_path: Path) -> None:
    previous_names = options(tmp_path, {"to": "http://10.0.0.1:8001"})
    after = options(tmp_path, {"to": "http://10.0.0.2:8001"}, {"to": "http://10.0.0.1:8001"})
    assert named(EnvoyClusters(previous_names.policy, "AUTO"), previous_names) == named(EnvoyClusters(after.policy, "AUTO"), after, 1)


def tls(cluster: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = cluster["transport_socket"]["typed_config"]
    return found


def test_a_certificate_must_come_from_the_named_authority_and_bear_the_name(tmp_path: Path) -> None:
    pem = base64.b64encode(CA.pem).decode()
    failover = {"to": "https://10.0.0.1", "tls_server_name": "b.internal", "upstream_http2": True}
    chosen = options(tmp_path, {"to": "https://app.internal", "tls_custom_ca": pem}, failover)
    made = EnvoyClusters(chosen.policy, "AUTO")
    custom, named_otherwise = tls(named(made, chosen)), tls(named(made, chosen, 1))
    assert custom["sni"] == "app.internal"
    validation = custom["common_tls_context"]["validation_context"]
    assert validation["trusted_ca"] == {"inline_string": CA.pem.decode()}
    assert validation["match_typed_subject_alt_names"] == [{"san_type": "DNS", "matcher": {"exact": "app.internal"}}]
    assert named_otherwise["sni"] == "b.internal"
    names = named_otherwise["common_tls_context"]["validation_context"]["match_typed_subject_alt_names"]
    assert names == [{"san_type": "DNS", "matcher": {"exact": "b.internal"}}]
    assert custom["common_tls_context"]["alpn_protocols"] == ["http/1.1"]
    assert named_otherwise["common_tls_context"]["alpn_protocols"] == ["h2"]


def test_ip_address_is_verified_as_ip_san_without_sni(tmp_path: Path) -> None:
    chosen = options(tmp_path, {"to": "https://10.0.0.1"})
    context = tls(named(EnvoyClusters(chosen.policy, "AUTO"), chosen))
    assert "sni" not in context
    names = context["common_tls_context"]["validation_context"]["match_typed_subject_alt_names"]
    assert names == [{"san_type": "IP_ADDRESS", "matcher": {"exact": "10.0.0.1"}}]


def test_only_tls_skip_verify_disables_verification(tmp_path: Path) -> None:
    chosen = options(tmp_path, {"to": "https://a.internal", "tls_skip_verify": True}, {"to": "https://a.internal"})
    made = EnvoyClusters(chosen.policy, "AUTO")
    assert "validation_context" not in tls(named(made, chosen))["common_tls_context"]
    assert "validation_context" in tls(named(made, chosen, 1))["common_tls_context"]


def test_without_authorities_to_verify_by_envoy_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream_clusters, "system_bundle", lambda: None)
    chosen = options(tmp_path, {"to": "https://a.internal"}, {"to": "http://a.internal"})
    made = EnvoyClusters(chosen.policy, "AUTO")
    assert made.name(Upstream.build(chosen.policy[0]), chosen.policy[0]) is None
    assert made.name(Upstream.build(chosen.policy[1]), chosen.policy[1]) is not None


def test_presents_client_certificate_to_upstreams(tmp_path: Path) -> None:
    gate_side = CA.issue("gate")
    key = gate_side.write(tmp_path).read_bytes().removeprefix(gate_side.pem)
    pair = {"tls_client_cert": base64.b64encode(gate_side.pem).decode(), "tls_client_key": base64.b64encode(key).decode()}
    chosen = options(tmp_path, {"to": "https://a.internal", **pair})
    (presented,) = tls(named(EnvoyClusters(chosen.policy, "AUTO"), chosen))["common_tls_context"]["tls_certificates"]
    assert presented["certificate_chain"] == {"inline_string": gate_side.pem.decode()}
    assert presented["private_key"] == {"inline_string": key.decode()}


@pytest.mark.parametrize("seed", range(10))
def test_incremental_clusters_equal_a_full_build(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    ca = base64.b64encode(CA.pem).decode()
    kinds: tuple[dict[str, Any], ...] = ({}, {"upstream_http2": True}, {"tls_custom_ca": ca}, {"tls_skip_verify": True}, {"name": "a"})

    def new() -> Route:
        to = [f"{chance.choice(('http', 'https'))}://10.0.0.{chance.randrange(3)}" for _ in range(chance.choice((1, 1, 2)))]
        host = f"app{chance.randrange(9)}.example.com"
        return Route.model_validate({"from": f"https://{host}", "to": [*dict.fromkeys(to)], **chance.choice(kinds)})

    routes, made = [new() for _ in range(6)], None
    for _ in range(60):
        family, by_route = chance.choice(("AUTO",) * 9 + ("V4_ONLY",)), chance.random() < 0.05
        made = EnvoyClusters(routes, family, by_route=by_route, previous=made)
        fresh = EnvoyClusters(routes, family, by_route=by_route)
        assert (made.resources, made._names) == (fresh.resources, fresh._names)
        for route in routes:
            upstream = Upstream.build(route, len(route.to) - 1)
            assert made.name(upstream, route) == fresh.name(upstream, route)
        address = chance.randrange(len(routes))
        routes = [*routes[:address], *chance.choice(([], [new()], [new(), routes[0]])), *routes[address + chance.randrange(2) :]] or [new()]


def test_only_new_operator_input_needs_validation(tmp_path: Path) -> None:
    secured = options(tmp_path, {"to": "https://10.0.0.1", "tls_custom_ca": base64.b64encode(CA.pem).decode()})
    first = EnvoyClusters(secured.policy, "AUTO")
    failover = options(tmp_path, {"to": "http://10.0.0.2"}).policy
    assert first.needs_validation
    assert not EnvoyClusters((*secured.policy, *failover), "AUTO", previous=first).needs_validation
    assert EnvoyClusters(secured.policy, "AUTO", previous=EnvoyClusters(failover, "AUTO")).needs_validation
