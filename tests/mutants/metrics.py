"""Defences of the numbers: what strangers say makes no series, and so no memory, without end."""

from tests.mutants.mutant import door

calls = door("foundation/telemetry/rpc_calls.py", "unit/foundation/telemetry/test_rpc_calls.py")
calls.without("callers' names make no series", "self._names.get(method, UNKNOWN)", "tuple(method.split('/')[:0:-1])")

http_calls = door("foundation/telemetry/http_calls.py", "unit/foundation/telemetry/test_http_calls.py")
http_calls.without("clients' methods make no series", "if method not in METHODS:", "if False:")
http_calls.without("series have a bound", "len(self._series) >= MOST_SERIES", "False")

answered = door("proxy/observe/request_metrics.py", "unit/proxy/observe/test_request_metrics.py")
answered.without("clients' hosts make no series", "wildcard if wildcard in self._hosts else OTHER", "host")
answered.without("clients' spellings fill no memory", " and len(self._names) < _MOST_SPELLINGS", "")

output = door("foundation/telemetry/output.py", "unit/foundation/telemetry/test_output.py")
output.without(
    "nobody waits for who reads the log",
    "        if not self._is_awake:\n            self._is_awake = True\n            self._wake.put(None)\n",
    "        os.write(self._descriptor, self._take().encode())\n",
)
output.without("what waits to be written is bounded by lines", "len(self._waiting) < self._most_lines // part and ", "")
output.without("what waits to be written is bounded in bytes", " and self._size + size <= self._most_bytes // part", "")
output.without("dropped lines are counted", "                metrics.log_lines_dropped.inc()\n", "                pass\n")
output.without(
    "dropped lines are told where they are missing", "                if self._dropped:\n                    self._tell_dropped()\n", ""
)
output.without("last words are heard", "            atexit.register(output.finish)\n", "")
output.without("who is not heard ends all the same", "while self._is_awake and time.monotonic() < deadline:", "while self._is_awake:")
speaking = door("gateproject/process/start.py", "unit/gateproject/process/test_start.py")
speaking.without("a running gate waits for no reader", "    make_output_non_blocking()\n    try:", "    try:")

DOORS = (output, speaking, answered, http_calls, calls)
