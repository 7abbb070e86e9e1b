"""Defences of the numbers: what strangers say makes no series, and so no memory, without end."""

from tests.mutants.mutant import door

calls = door("gateproject/telemetry/rpc_calls.py", "unit/gateproject/telemetry/test_rpc_calls.py")
calls.without("callers' names make no series", "self._names.get(method, UNKNOWN)", "tuple(method.split('/')[:0:-1])")

http_calls = door("gateproject/telemetry/http_calls.py", "unit/gateproject/telemetry/test_http_calls.py")
http_calls.without("clients' methods make no series", "if method not in METHODS:", "if False:")
http_calls.without("series have a bound", "len(self._series) >= MOST_SERIES", "False")

answered = door("proxy/answered.py", "unit/proxy/test_answered.py")
answered.without("clients' hosts make no series", "wildcard if wildcard in self._hosts else OTHER", "host")
answered.without("clients' spellings fill no memory", " and len(self._names) < _MOST_SPELLINGS", "")

DOORS = (answered, http_calls, calls)
