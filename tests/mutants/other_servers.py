"""Defences under ASGI servers that are not ours: what they leave in doubt is not let in, and what they say of a client is not believed."""

from tests.mutants.mutant import door

scope = door("proxy/other_servers/scope.py", "unit/proxy/other_servers/test_scope.py")
scope.without(
    "a path that nobody names is refused",
    "if not isinstance(raw_path, bytes) or not isinstance(query, bytes):",
    "if raw_path is None:\n        raw_path = str(scope['path']).encode()\n    if False:",
)
scope.without("path and raw path are one", ' or unquote(raw_path.decode("latin-1")) != scope.get("path")', "")
scope.without("a raw path has no query", ' or b"?" in raw_path', "")
scope.without("gate has no root path", '    if scope.get("root_path"):\n', "    if False:\n")
scope.without("a header of a scope is one line", "any(_SEPARATORS.search(line) for line in text) or ", "")
scope.without("a name in a scope has no colon", ' or any(name.find(b":") != len(name) - 1 for name, _ in lines[1:])', "")
scope.without("HTTP/1.0 is refused by any server", 'if version in ("0.9", "1.0"):', "if False:")
scope.without("other servers carry no tunnels", 'if not is_websocket and scope["method"] == "CONNECT":', "if False:")
scope.without("a client is no client's word", "or not client[1]:", "or False:")
scope.without("a handshake is ours", "and not pair[0].lower().startswith(PREFIX)]", "]")
scope.without("extensions of other servers are not believed", '"extensions": {},', '"extensions": scope.get("extensions", {}),')

answers = door("proxy/other_servers/http.py", "unit/proxy/other_servers/test_http.py")
answers.without(
    "an answer through other servers is not split",
    'head = ResponseHead(self._method, message["status"], message["headers"])',
    'head = ResponseHead(self._method, message["status"], [])',
)
answers.without("a broken answer is not finished", "            self._is_cut = True\n", "            return\n")

websockets = door("proxy/other_servers/websocket.py", "unit/proxy/other_servers/test_websocket.py")
websockets.without("nothing but 101 looks like an open websocket", "self._may_deny &= self.status >= 300", "pass")
websockets.without("an accepted handshake is not split", '        ResponseHead(b"GET", 204, said)\n', "")
websockets.without(
    "who is not read is not read from on other servers", "                self._side.pause_writing()\n", "                pass\n"
)

begun = door("gateproject/process/other_server.py", "unit/gateproject/process/test_other_server.py")
begun.without(
    "where gate can't begin nobody is let in",
    "return self._begun is not None and self._begun.done() and self._begun.exception() is None",
    "return True",
)

DOORS = (scope, answers, websockets, begun)
