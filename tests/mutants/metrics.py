"""Defences of the numbers: what strangers say makes no series, and so no memory, without end."""

from tests.mutants.mutant import door
from tests.mutants.operations import never, replaced

calls = door("foundation.telemetry.rpc_calls", "unit/foundation/telemetry/test_rpc_calls.py")
calls.without(
    "callers' names make no series", "RpcCalls.ended", replaced("self._names.get(method, UNKNOWN)", "tuple(method.split('/')[:0:-1])")
)

answered = door("proxy.observe.request_metrics", "unit/proxy/observe/test_request_metrics.py")
answered.without(
    "clients' hosts make no series", "RequestCounter._name", replaced("wildcard if wildcard in self._hosts else OTHER", "host")
)

page = door("foundation.telemetry.exposition", "unit/foundation/telemetry/test_exposition.py")
page.without(
    "no name ends its label", "escaped", replaced(r"""value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")""", "value")
)
many = door("config.options", "unit/proxy/upstreams/test_route_statistics.py")
many.without(
    "ten thousand routes make no ten thousand histograms",
    "Options.measures_routes",
    replaced("len(self.policy) <= MOST_MEASURED_ROUTES", "True"),
)
by_envoy = door("proxy.envoy.child.statistics", "unit/proxy/envoy/child/test_statistics.py")
by_envoy.without("clusters of no route are not told", "_line", replaced("labels.get(found[1])", "labels.get(found[1], found[1])"))

output = door("foundation.telemetry.output", "unit/foundation/telemetry/test_output.py")
output.without(
    "nobody waits for who reads the log",
    "NonBlockingOutput._put",
    replaced(
        "if not self._is_awake:\n    self._is_awake = True\n    self._wake.put(None)", "os.write(self._descriptor, self._take().encode())"
    ),
)

page_metrics = door(
    "gateproject.middleware", "integration/test_metrics.py::test_pages_of_ours_are_timed_by_view_and_nothing_that_a_client_makes_up"
)
page_metrics.without("clients' methods make no series of our pages", "PageMetricsMiddleware.label_metric", never('"method" in labels'))

DOORS = (calls, answered, page, many, by_envoy, output, page_metrics)
