"""Metrics reference (docs/reference/metrics.md), generated from the declarations."""

from collections.abc import Iterable

from foundation.telemetry.metrics import DeclaredMetric, declared
from proxy.upstreams.route_statistics import EJECTIONS, LABELLED, PREFIX, SCALARS

_ROUTE = ("envoy_cluster_name",)
_MORE: dict[str, tuple[str, ...]] = {"upstream_rq": ("envoy_response_code",), "upstream_rq_xx": ("envoy_response_code_class",)}

_HEAD = """# Metrics

This page is generated from the declarations by `make docs`; do not edit it.

gate serves metrics in the Prometheus text format at `/metrics` on `metrics_address`. Every metric has the label `service`: `gate`, or
`gate-proxy`, `gate-authenticate`, `gate-authorize` or `gate-databroker` in a split deployment. A histogram `x` consists of `x_bucket`,
`x_sum` and `x_count`. Label values never come from clients. The same endpoint has the metrics of the process, of Python and of Django
(`django_...`).
"""
_ROUTES = """## Route metrics

`envoy_cluster_name` is the route's `name`, or its id where it has none (`route` in the log). These metrics exist for up to 500 routes, and
for any number with `metrics_per_route: true`. A request counts when it ends. Denied requests and sign-in redirects are not counted here.
The names are Envoy's, and both data planes use them. A reload removes the metrics of removed and renamed routes.
"""
_ENVOY = """## Envoy metrics

With `data_plane: envoy`, the endpoint includes Envoy's own statistics with the label `plane="envoy"`: connections and bytes per route
(`sum by (envoy_cluster_name)` adds both data planes), its listener and its process (`envoy_http_downstream_*`, `envoy_listener_*`,
`envoy_server_*`). Requests to upstreams are counted by gate only. While `gate_envoy_up` is 0, these statistics are missing.
"""


def metrics_page() -> str:
    return f"{_HEAD}\n{_table(sorted(declared))}\n{_ROUTES}\n{_table(metrics_of_routes())}\n{_ENVOY}"


def metrics_of_routes() -> list[DeclaredMetric]:
    described = [(name, kind, help) for name, kind, help, _ in SCALARS]
    described += [*LABELLED, *((name, kind, help) for name, kind, help, _ in EJECTIONS)]
    return [DeclaredMetric(PREFIX + name, kind, help, (*_ROUTE, *_MORE.get(name, ()))) for name, kind, help in described]


def _table(metrics: Iterable[DeclaredMetric]) -> str:
    rows = (f"| `{each.name}` | {each.kind} | {', '.join(f'`{label}`' for label in each.labels)} | {each.help} |\n" for each in metrics)
    return "| Name | Type | Labels | Description |\n|---|---|---|---|\n" + "".join(rows)
