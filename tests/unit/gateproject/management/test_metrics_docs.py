"""The reference has every declared metric."""

from foundation.telemetry.metrics import declared, registry
from gateproject.management.metrics_docs import metrics_page


def test_every_metric_of_the_registry_is_there_with_its_labels() -> None:
    page = metrics_page()
    names = {each.name.removesuffix("_total") for each in declared}
    assert names == {metric.name for metric in registry.collect()}
    assert all(f"| `{each.name}` | {each.kind} |" in page for each in declared)
    assert "| `gate_upstream_healthy` | gauge | `upstream` |" in page


def test_routes_metrics_are_there() -> None:
    page = metrics_page()
    assert "| `envoy_cluster_upstream_rq` | counter | `envoy_cluster_name`, `envoy_response_code` |" in page
    assert "| `envoy_cluster_upstream_rq_time` | histogram | `envoy_cluster_name` |" in page
