"""Defences of the numbers: what strangers say makes no series, and so no memory, without end."""

from tests.mutants.mutant import door
from tests.mutants.operations import always, never, replaced, skips

calls = door("foundation.telemetry.rpc_calls", "unit/foundation/telemetry/test_rpc_calls.py")
calls.without(
    "callers' names make no series", "RpcCalls.ended", replaced("self._names.get(method, UNKNOWN)", "tuple(method.split('/')[:0:-1])")
)

http_calls = door("foundation.telemetry.http_calls", "unit/foundation/telemetry/test_http_calls.py")
http_calls.without("clients' methods make no series", "HttpCalls.series", never("method not in METHODS"))
http_calls.without("series have a bound", "HttpCalls.series", never("len(self._series) >= MOST_SERIES"))

answered = door("proxy.observe.request_metrics", "unit/proxy/observe/test_request_metrics.py")
answered.without(
    "clients' hosts make no series", "RequestCounter._name", replaced("wildcard if wildcard in self._hosts else OTHER", "host")
)
answered.without("clients' spellings fill no memory", "RequestCounter._series", always("len(self._known) < _MOST_SPELLINGS"))

page = door("foundation.telemetry.exposition", "unit/foundation/telemetry/test_exposition.py")
page.without(
    "no name ends its label", "escaped", replaced(r"""value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")""", "value")
)
page.without("every sample has its service", "_family", never('"service" not in sample.labels'))
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
output.without(
    "what waits to be written is bounded by lines", "NonBlockingOutput._has_room", always("len(self._waiting) < self._most_lines // part")
)
output.without(
    "what waits to be written is bounded in bytes", "NonBlockingOutput._has_room", always("self._size + size <= self._most_bytes // part")
)
output.without("dropped lines are counted", "NonBlockingOutput.write", skips("metrics.log_lines_dropped.inc()"))
output.without("dropped lines are told where they are missing", "NonBlockingOutput.write", never("self._dropped"))
output.without("last words are heard", "make_output_non_blocking", skips("atexit.register(output.finish)"))
output.without("who is not heard ends all the same", "NonBlockingOutput.finish", always("time.monotonic() < deadline"))
speaking = door("gateproject.process.start", "unit/gateproject/process/test_start.py")
speaking.without("what is being written starts nothing", "prepare", skips("_require_complete(settings.GATE_SOURCE)"))
speaking.without("a running gate waits for no reader", "from_settings", skips("make_output_non_blocking(...)"))

page_metrics = door(
    "gateproject.middleware", "integration/test_metrics.py::test_pages_of_ours_are_timed_by_view_and_nothing_that_a_client_makes_up"
)
page_metrics.without("clients' methods make no series of our pages", "PageMetricsMiddleware.label_metric", never('"method" in labels'))

judge = door("proxy.planes.request_judge", "unit/proxy/planes/test_request_judge.py")
judge.without("a decision is counted", "RequestJudge.with_shadow", skips("_count(judged.check.decision)"))

logs = door("foundation.telemetry.logs", "unit/foundation/telemetry/test_logs.py")
logs.without("an answer of gate is no second line of Django's", "_has_exception", replaced("record.exc_info is not None", "True"))

DOORS = (judge, logs, page_metrics, page, many, by_envoy, output, speaking, answered, http_calls, calls)
