"""Envoy's metrics page, as exported by gate."""

from pathlib import Path

from foundation.telemetry import metrics
from foundation.telemetry.exposition import MetricFamilyText
from proxy.envoy.process.envoy_statistics import EnvoyStatistics, merge_families, parse_families

PAGE = """# TYPE envoy_cluster_upstream_cx_total counter
envoy_cluster_upstream_cx_total{envoy_cluster_name="gate"} 7
envoy_cluster_upstream_cx_total{envoy_cluster_name="route-00aa"} 2
envoy_cluster_upstream_cx_total{envoy_cluster_name="route-00bb"} 3

# TYPE envoy_cluster_x_rq counter
envoy_cluster_x_rq{envoy_response_code="200",envoy_cluster_name="route-00aa"} 4
# TYPE envoy_server_live gauge
envoy_server_live{} 1
# TYPE envoy_only_of_clusters_gone gauge
envoy_only_of_clusters_gone{envoy_cluster_name="route-00bb"} 1
"""


def test_routes_get_their_labels_and_others_are_omitted() -> None:
    assert parse_families(PAGE, "gate", {"route-00aa": 'a "b"'}) == {
        "envoy_cluster_upstream_cx_total": MetricFamilyText(
            "counter",
            "As counted by Envoy.",
            [r'envoy_cluster_upstream_cx_total{service="gate",plane="envoy",envoy_cluster_name="a \"b\""} 2'],
        ),
        "envoy_cluster_x_rq": MetricFamilyText(
            "counter",
            "As counted by Envoy.",
            [r'envoy_cluster_x_rq{service="gate",plane="envoy",envoy_response_code="200",envoy_cluster_name="a \"b\""} 4'],
        ),
        "envoy_server_live": MetricFamilyText("gauge", "As counted by Envoy.", ['envoy_server_live{service="gate",plane="envoy"} 1']),
    }


def test_a_family_of_both_is_one() -> None:
    families = {"a": MetricFamilyText("counter", "Ours.", ["a 1"]), "b": MetricFamilyText("gauge", "Ours.", ["b 1"])}
    peer_side = {"a": MetricFamilyText("counter", "Theirs.", ['a{plane="envoy"} 2']), "c": MetricFamilyText("gauge", "Theirs.", ["c 1"])}
    both = merge_families(families, peer_side)
    assert list(both) == ["a", "b", "c"]
    assert both["a"] == MetricFamilyText("counter", "Ours.", ["a 1", 'a{plane="envoy"} 2'])


def test_reports_unavailable_envoy(tmp_path: Path) -> None:
    metrics.envoy_up.set(1)
    assert EnvoyStatistics(tmp_path / "nobody").families("gate", {}) == {}
    assert metrics.envoy_up.collect()[0].samples[0].value == 0
