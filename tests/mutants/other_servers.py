"""Defences under ASGI servers that are not ours: what they leave in doubt is not let in, and what they say of a client is not believed."""

from tests.mutants.mutant import door
from tests.mutants.operations import replaced

scope = door("proxy.other_servers.scope", "unit/proxy/other_servers/test_scope.py")
scope.without(
    "a path that nobody names is refused",
    "_target",
    replaced(
        "if not isinstance(raw_path, bytes) or not isinstance(query, bytes):\n    ...",
        "if raw_path is None:\n    raw_path = str(scope['path']).encode()",
    ),
)
scope.without("a client is no client's word with a port", "_is_named", replaced("hop.startswith((f'{host}:', f'[{host}]:'))", "False"))
scope.without(
    "extensions of other servers are not believed",
    "strict_scope",
    replaced("{}", "scope.get('extensions', {})"),
)

answers = door("proxy.other_servers.http", "unit/proxy/other_servers/test_http.py")
answers.without(
    "an answer through other servers is not split",
    "_CheckedAnswer.send",
    replaced("ResponseHead(self._method, message['status'], message['headers'])", "ResponseHead(self._method, message['status'], [])"),
)
answers.without("a broken answer is not finished", "_CheckedAnswer.send", replaced("self._is_cut = True", "return"))

DOORS = (scope, answers)
