"""Defences of the listener: what is not strict HTTP/1.1 is refused, and every answer belongs to its question."""

from tests.mutants.mutant import door

head = door("proxy/listener/http1/head.py", "unit/proxy/listener/http1/test_head.py")
head.without("Content-Length beside Transfer-Encoding is refused", "        if lengths is not None:\n", "        if False:\n")
head.without("a second Content-Length is refused", "if len(lengths) != 1 or _CONTENT_LENGTH", "if _CONTENT_LENGTH")
head.without("a Content-Length is digits", 'rb"[0-9]{1,18}"', r'rb"[+-]?[0-9_ ]{1,18}"')
head.without("the only coding is chunked", 'if codings[0].lower() != b"chunked":', 'if b"chunked" not in codings[0].lower():')
head.without("malformed header lines and folded ones are refused", "if HEADER_LINES.fullmatch(lines) is None:", "if False:")
head.without("a Latin-1 line end in a value is refused", r"\x80-\x84\x86-\xff", r"\x80-\xff")
head.without("names with an underscore are dropped", 'if b"_" in raw_name:', "if False:")
head.without("exactly one Host", "if len(hosts) != 1:", "if not hosts:")
head.without("a Host is a host", "if _HOST.fullmatch(hosts[0]) is None:", "if False:")
head.without("HTTP/1.0 is refused", 'if (major, minor) != (b"1", b"1"):', 'if (major, minor) not in ((b"1", b"1"), (b"1", b"0")):')
head.without("a URL is at most 8 KiB", "if len(target) > URL_BYTES:", "if False:")
head.without("TRACE is refused", "if method in _REFUSED_METHODS:", "if False:")
head.without("a method is in capitals for the listener", '        require_method(method.decode("ascii"))\n', "        pass\n")
head.without("a tunnel is for a host and a port", "if _AUTHORITY_FORM.fullmatch(target) is None:", "if False:")
head.without("a tunnel's target and Host name the same", "if target.lower() != host.lower():", "if False:")
head.without("a CONNECT has no body", 'if any(name in (b"content-length", b"transfer-encoding") for name, _ in head.headers):', "if False:")
head.without(
    "what follows a CONNECT is no request",
    '    head.raw_path = b"/"\n    head.is_handshake = head.wants_close = True',
    '    head.raw_path = b"/"',
)
head.without("target and Host name the same host", "if authority.lower() != host.lower():", "if False:")
head.without(
    "a bare line feed is refused",
    "if line_end == 0 or buffer[line_end - 1] != 0x0D:",
    "if False:",
    "unit/proxy/listener/http1/test_head.py",
    "unit/proxy/listener/http1/test_channel.py",
)

body = door("proxy/listener/http1/body.py", "unit/proxy/listener/http1/test_body.py")
body.without("a chunk size is hexadecimal", r'rb"([0-9A-Fa-f]{1,16}+)(?:%b)*+"', r'rb"(?:0x)?([0-9A-Fa-f]{1,16}+)[ \t]*(?:%b)*+"')
body.without("a chunk ends where it says", 'if end == b"\\r\\n":', "if len(end) == 2:")
body.without("chunk lines end with CR LF", "if end < at or data[end] != 0x0D:", "if False:")
body.without("trailers are checked", " or HEADER_LINE.fullmatch(data, at, end + 2) is None", "")

channel = door("proxy/listener/http1/channel.py", "unit/proxy/listener/http1/test_channel.py")
channel.without(
    "what follows an early answer is no request",
    "is_drained = self._body is None or (not head.expects_continue and is_short(self._body))",
    "is_drained = True",
)
channel.without(
    "without our 100 nobody knows what follows",
    "(not head.expects_continue and is_short(self._body))",
    "is_short(self._body)",
    "unit/proxy/listener/http1/test_request.py",
)
channel.without(
    "a broken body ends the connection",
    "        except RequestRefused as refused:\n            self.refuse(refused)\n            return\n",
    "        except RequestRefused:\n            return\n",
    "unit/proxy/listener/http1/test_body.py",
)
channel.without(
    "a head that takes too long ends", """self._deadline.start(self.context.limits.read, partial(self._too_late, "head"))""", "pass"
)
channel.without(
    "a connection that has ended stays so",
    "        if not self._is_closing:\n            self._deadline",
    "        if True:\n            self._deadline",
)
channel.without("requests sent ahead are not all kept", "elif len(self._buffer) > limits.BODY_BUFFER_BYTES:", "elif False:")
channel.without(
    "a client that reads no answers is not asked for more", "if self.is_write_paused or not self._buffer:", "if not self._buffer:"
)

channel.without("a head in pieces stands behind", "                self._priority.demote()\n", "")
channel.without("drops of a body stand behind", "            self._priority.after_body_bytes(len(data))\n", "            pass\n")
channel.without(
    "a descriptor has no past", "        self._slow_reader.end()\n        self.context.channels", "        self.context.channels"
)

selector = door("proxy/listener/fair_selector.py", "unit/proxy/listener/test_fair_selector.py")
selector.without("of those behind a turn takes few", "max(FEW, len(ready))", "len(self._keys) + 1")
selector.without(
    "a client that does not read stands behind", "        self._priority.demote()\n        self._deadline", "        self._deadline"
)
selector.without(
    "a new connection stands behind", "        self._is_demoted = False\n        self.demote()\n", "        self._is_demoted = False\n"
)

client_socket = door("proxy/listener/client_socket.py", "unit/proxy/listener/test_client_socket.py")
client_socket.without(
    "the kernel takes little for a client that does not read",
    "            plain.getHandle().setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, limits.UNSENT_BYTES)\n",
    "",
)

response = door("proxy/listener/http1/response.py", "unit/proxy/listener/http1/test_response.py")
response.without("a response header is one line", ' or block.count(b"\\n") != len(lines)', "")
response.without("a response header has no control characters", "_LINES.fullmatch(block) is None or ", "")
response.without("the framing of our connection is ours", "if folded in _OURS:", "if False:")

request = door("proxy/listener/http1/request.py", "unit/proxy/listener/http1/test_request.py")
request.without(
    "a response is as long as it says",
    "if self._sent > response.content_length or (is_last and self._sent < response.content_length):",
    "if False:",
    "unit/proxy/listener/http1/test_request.py",
    "unit/proxy/listener/http1/test_response.py",
    "unit/proxy/listener/http1/test_channel.py",
)

mutual_tls = door("proxy/listener/tls/certificates.py", "integration/test_client_certificates.py")
mutual_tls.without(
    "a client is asked for the host that it names",
    "self.context_for(name))\n            self._ask(connection, name)\n",
    "self.context_for(name))\n",
    "unit/proxy/listener/tls/test_certificates.py",
)
mutual_tls.without(
    "no session is resumed where certificates count", "            connection.set_options(SSL.OP_NO_TICKET)\n", "            pass\n"
)
shown = door("proxy/incoming.py", "unit/proxy/test_incoming.py")
shown.without("a certificate counts for the host of its connection", 'if server_name.lower().removesuffix(".") != host:', "if False:")
shown.without(
    "an address that trusted proxies leave in doubt is none",
    '        if ip_of(hop) is None:\n            return ""\n',
    "        if ip_of(hop) is None:\n            return peer\n",
)

proxy_header = door("proxy/listener/proxy_protocol/header.py", "unit/proxy/listener/proxy_protocol/test_header.py")
proxy_header.without(
    "a PROXY header is required",
    'raise MalformedProxyHeader("the connection does not begin with a PROXY header")',
    "return ProxyHeader(0, None)",
)
proxy_header.without(
    "a PROXY line is strict", "if found is None:\n        raise MalformedProxyHeader", "if False:\n        raise MalformedProxyHeader"
)
proxy_header.without("a PROXY header is bounded", "if length > LONGEST_V2:", "if False:")
proxy_header.without("a PROXY header's parts add up", "if at != len(data):", "if False:")
balanced = door("proxy/listener/proxy_protocol/wrapper.py", "unit/proxy/listener/proxy_protocol/test_wrapper.py")
balanced.without(
    "no byte passes before a good PROXY header",
    "            self._refuse(str(error))\n            return\n",
    "            self._hand_over(None, data)\n            return\n",
)
balanced.without("a PROXY header comes in time", "super().__init__(min(behind.limits().read, MOST_SECONDS))", "super().__init__(3600.0)")
redirects = door("proxy/listener/https_redirects.py", "unit/proxy/listener/test_https_redirects.py")
redirects.without("a redirect to https leads to a host", 'host, _ = canonical_host(hosts[0] if hosts else b"")', "host = hosts[0].decode()")

spdy = door("proxy/forwarding/spdy.py", "unit/proxy/forwarding/test_spdy.py")
spdy.without("only the protocol that was asked for opens a tunnel", "        _require_accepted(raw_headers)\n", "")
spdy.without("no request body hides behind an upgrade", 'if method not in ("GET", "POST") or has_body:', "if False:")

tunnel = door("proxy/forwarding/tunnel.py", "unit/proxy/forwarding/test_spdy.py", "unit/proxy/forwarding/test_tcp.py")
tunnel.without(
    "nothing passes after access has ended",
    "        if not self._tunnel.ended.done():\n            self.passed",
    "        if True:\n            self.passed",
)
tunnel.without("an end waits for what was not taken", "if not self.peer.is_congested:", "if True:")
tunnel.without("what breaks off is broken off for the other side", "if error is not None and self.half_closes:", "if False:")
tunnel.without("a reader that stops stops the writer", "        self.peer.hold(CONGESTED)\n", "", "unit/proxy/forwarding/test_tunnel.py")

after_the_end = door("proxy/listener/tunnel.py", "unit/proxy/listener/test_tunnel.py")
after_the_end.without("what comes after a client's end is kept nowhere", "        if not self._has_input_ended:\n", "        if True:\n")
after_the_end.without(
    "who aborts after the client has left does no harm", "        if self._tlsConnection is None:\n", "        if False:\n"
)

tcp = door("proxy/forwarding/tcp.py", "unit/proxy/forwarding/test_tcp.py")
tcp.without("access may end while an upstream is dialled", "    handle.end = watch.revoke\n", "")
tcp.without("no connection is left of a client that has gone", "            tunnel.upstream.connection.abort()\n", "            pass\n")

tcp.without("a tunnel may not be silent for ever", "silence=limits.silence", "silence=None")

silence = door("proxy/forwarding/idle_timer.py", "unit/proxy/forwarding/test_idle_timer.py")
silence.without(
    "silence is counted from the last word",
    "        self._begins = self._loop.time()\n",
    "        self._begins = self._begins or self._loop.time()\n",
)
silence.without("who can't speak is not silent", "if self._is_hindered():", "if False:")

tunnels = door("proxy/planes/embedded.py", "unit/proxy/planes/test_embedded.py")
tunnels.without("one session has only so many tunnels", " >= MOST_TUNNELS:", " < 0:")

counted = door("proxy/planes/open_streams.py", "unit/proxy/planes/test_open_streams.py")
counted.without(
    "who has an IPv6 network has no more tunnels than others",
    "client_network(stream.incoming.peer) == network",
    "stream.incoming.peer == peer",
)

shared = door("foundation/client_network.py", "unit/foundation/test_client_network.py")
shared.without("what all share is bounded", "self._taken.total() >= self._of_all or ", "")
shared.without("a flood leaves others their places", " or (network and self._taken[network] >= self._of_one)", "")

one_credential = door("authorize/identity/credentials.py", "unit/authorize/identity/test_credentials.py")
one_credential.without("a request's credential is not a proxy's", "_OF_A_TUNNEL if request.is_tunnel else _OF_A_REQUEST", "_OF_A_TUNNEL")

TRANSPORT = "contract/test_transport.py"
groups = door("proxy/listener/tls/certificates.py", TRANSPORT)
groups.without("clients get the groups that we chose", "    _set_groups(context)\n", "")
groups.without("an operator may leave TLS 1.2 out", '        if self.min_version == "1.3":', "        if False:")
own_headers = door("proxy/service.py", TRANSPORT)
own_headers.without("our own answers are for TLS, too", "        incoming.own_headers = self._own_headers\n", "")
pages_headers = door("gateproject/middleware.py", TRANSPORT)
pages_headers.without("our pages are for TLS, too", 'in request.scope["gate"].incoming.own_headers:', "in ():")
health = door("proxy/answers/own_pages.py", TRANSPORT)
health.without("nobody keeps an answer about health", ", is_for_now=True", "")

FULL = "integration/test_descriptors.py"
places = door("proxy/listener/server.py", FULL)
places.without("new clients leave room for upstreams", "            if is_short(self.fileno()):\n", "            if False:\n")
said = door("proxy/upstreams/upstream_errors.py", FULL)
said.without(
    "an upstream that can't be asked for lack of descriptors is told", "            report_shortage(UPSTREAMS)\n", "            pass\n"
)
daphnes = door("proxy/listener/daphne_options.py", "unit/proxy/listener/test_daphne_options.py")
daphnes.without(
    "an option of daphne without effect is refused", "        elif option.instead and value not in option.same:\n", "        elif False:\n"
)
daphnes.without("daphne believes no proxy that is not named", 'if "proxy_headers" in given and not options.trusted_proxies:', "if False:")
daphnes.without("under daphne TLS has one source", "if not options.insecure_server and (own :=", "if False and (own :=")
wrapping = door("proxy/listener/wrapping.py", "unit/proxy/listener/test_wrapping.py")
wrapping.without("a configuration with certificates is TLS", "if current().certificates is not None:", "if False:")
command = door("proxy/listener/daphne_command.py", "unit/proxy/listener/test_daphne_command.py")
command.without("another Daphne is refused", "if not daphne.__version__.startswith(VERSIONS):", "if False:")

DOORS = (
    daphnes,
    wrapping,
    command,
    places,
    said,
    groups,
    own_headers,
    pages_headers,
    health,
    tunnels,
    counted,
    one_credential,
    shared,
    tunnel,
    after_the_end,
    tcp,
    silence,
    spdy,
    proxy_header,
    balanced,
    redirects,
    mutual_tls,
    shown,
    head,
    body,
    channel,
    selector,
    client_socket,
    response,
    request,
)
