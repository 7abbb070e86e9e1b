"""Metrics page: docs/metrics.md, out of the declarations."""

from collections.abc import Iterable

from foundation.telemetry.metrics import DeclaredMetric, declared
from proxy.upstreams.route_statistics import EJECTIONS, LABELLED, PREFIX, SCALARS

_ROUTE = ("envoy_cluster_name",)
_MORE: dict[str, tuple[str, ...]] = {"upstream_rq": ("envoy_response_code",), "upstream_rq_xx": ("envoy_response_code_class",)}

_HEAD = """# Metrics

Made by `make docs` out of the declarations. `metrics_address` serves them at `/metrics` in the Prometheus text format. Every one has the
label `service`: `gate` where one process is everything, `gate-proxy`, `gate-authenticate`, `gate-authorize` or `gate-databroker` where it
is one service. A histogram `x` is read as `x_bucket`, `x_sum` and `x_count`. No label is anything that a client can make up. Beside these
stand those of the process, of Python, and of our pages and the database as django-prometheus counts them (`django_...`).
"""
_ROUTES = """## Of each route

`envoy_cluster_name` is the route's `name`, else its id (the `route` of the log). They are told with up to 500 routes, beyond them with
`metrics_per_route: true`; a route that a reload takes away or renames is told no more, at once. A request counts when it ends; who is sent
to sign in, or refused, does not count here. Names are Envoy's, and both data planes tell the same.
"""
_ENVOY = """## Of Envoy itself

With `data_plane: envoy` its own statistics stand on the same page, with `plane="envoy"`: connections and bytes of what it carries by route
(`sum by (envoy_cluster_name)` adds both carriers), its listener, and itself (`envoy_http_downstream_*`, `envoy_listener_*`,
`envoy_server_*`). Requests to upstreams are counted by gate alone. While `gate_envoy_up` is 0 they are missing.
"""


def metrics_page() -> str:
    return f"{_HEAD}\n{_table(sorted(declared))}\n{_ROUTES}\n{_table(metrics_of_routes())}\n{_ENVOY}"


def metrics_of_routes() -> list[DeclaredMetric]:
    described = [(name, kind, help) for name, kind, help, _ in SCALARS]
    described += [*LABELLED, *((name, kind, help) for name, kind, help, _ in EJECTIONS)]
    return [DeclaredMetric(PREFIX + name, kind, help, (*_ROUTE, *_MORE.get(name, ()))) for name, kind, help in described]


def _table(metrics: Iterable[DeclaredMetric]) -> str:
    rows = (f"| `{each.name}` | {each.kind} | {', '.join(f'`{label}`' for label in each.labels)} | {each.help} |\n" for each in metrics)
    return "| Name | Type | Labels | Meaning |\n|---|---|---|---|\n" + "".join(rows)
