"""Defences under ASGI servers that are not ours: what they leave in doubt is not let in, and what they say of a client is not believed."""

from tests.mutants.mutant import door
from tests.mutants.operations import never, replaced, skips

scope = door("proxy.other_servers.scope", "unit/proxy/other_servers/test_scope.py")
scope.without(
    "a path that nobody names is refused",
    "_target",
    replaced(
        "if not isinstance(raw_path, bytes) or not isinstance(query, bytes):\n    ...",
        "if raw_path is None:\n    raw_path = str(scope['path']).encode()",
    ),
)
scope.without("path and raw path are one", "_target", never("unquote(raw_path.decode('latin-1')) != scope.get('path')"))
scope.without("a raw path has no query", "_target", never("b'?' in raw_path"))
scope.without("gate has no root path", "strict_scope", never("scope.get('root_path')"))
scope.without("a header of a scope is one line", "_parsed", never("any(_SEPARATORS.search(line) for line in text)"))
scope.without("a name in a scope has no colon", "_parsed", never("any(name.find(b':') != len(name) - 1 for name, _ in lines[1:])"))
scope.without("HTTP/1.0 is refused by any server", "strict_scope", never("version in ('0.9', '1.0')"))
scope.without("other servers carry no tunnels", "strict_scope", never("not is_websocket and scope['method'] == 'CONNECT'"))
scope.without("a client is no client's word", "_client", never("not client[1]"))
scope.without("a client is no client's word with a port", "_is_named", replaced("hop.startswith((f'{host}:', f'[{host}]:'))", "False"))
scope.without("a client is no client's word with a port beside it", "_is_named", never("has_port and hops[:1] == [host]"))
scope.without("a handshake is ours", "_handshake_headers", replaced("not pair[0].lower().startswith(PREFIX)", "True"))
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

websockets = door("proxy.other_servers.websocket", "unit/proxy/other_servers/test_websocket.py")
websockets.without(
    "nothing but 101 looks like an open websocket", "AsgiWebsocketClient.send", skips("self._may_deny &= self.status >= 300")
)
websockets.without("an accepted handshake is not split", "AsgiWebsocketClient.take_over", skips("ResponseHead(b'GET', 204, said)"))
websockets.without("who is not read is not read from on other servers", "AsgiWebsocketClient._put", skips("self._side.pause_writing()"))

begun = door("gateproject.process.other_server", "unit/gateproject/process/test_other_server.py")
begun.without(
    "where gate can't begin nobody is let in",
    "OtherServer",
    replaced("self._begun is not None and self._begun.done() and self._begun.exception() is None", "True"),
)

DOORS = (scope, answers, websockets, begun)
