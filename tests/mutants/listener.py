"""Defences of the listener: what is not strict HTTP/1.1 is refused, and every answer belongs to its question."""

from tests.mutants.mutant import door
from tests.mutants.operations import always, in_text, lacks, never, omits, passes, replaced, skips

head = door("proxy.listener.http1.head", "unit/proxy/listener/http1/test_head.py")
head.without(
    "Content-Length beside Transfer-Encoding is refused", "_read_framing", skips("if lengths is not None: raise RequestRefused(...)")
)
head.without("a second Content-Length is refused", "_read_framing", never("len(lengths) != 1"))
head.without("a Content-Length is digits", "_CONTENT_LENGTH", in_text(b"0-9", b"+-]?[0-9_ "))
head.without(
    "the only coding is chunked", "_require_chunked", replaced('codings[0].lower() != b"chunked"', 'b"chunked" not in codings[0].lower()')
)
head.without("malformed header lines and folded ones are refused", "_parse_headers", never("HEADER_LINES.fullmatch(lines) is None"))
head.without("a C1 control in a value is refused", "_parse_headers", never("has_c1_control(lines)"))
head.without("names with an underscore are dropped", "_parse_headers", never('b"_" in name'))
head.without("a name that Daphne would take a root path from is dropped", "_parse_headers", never("name in IGNORED_NAMES"))
head.without("a name that is dropped is told to who forwards the head itself", "_parse_headers", skips("head.ignored.append(raw_name)"))
head.without("exactly one Host", "_read_host", replaced("len(hosts) != 1", "not hosts"))
head.without("a Host is a host", "_read_host", never("_HOST.fullmatch(hosts[0]) is None"))
head.without(
    "HTTP/1.0 is refused",
    "_parse_request_line",
    replaced('(major, minor) != (b"1", b"1")', '(major, minor) not in ((b"1", b"1"), (b"1", b"0"))'),
)
head.without("a URL is at most 8 KiB", "_parse_request_line", never("len(target) > URL_BYTES"))
head.without("TRACE is refused", "_require_method", never("method in _REFUSED_METHODS"))
head.without("a method is in capitals for the listener", "_require_method", skips('require_method(method.decode("ascii"))'))
head.without("a tunnel is for a host and a port", "_read_connect", never("_AUTHORITY_FORM.fullmatch(target) is None"))
head.without("a tunnel's target and Host name the same", "_read_connect", never("target.lower() != host.lower()"))
head.without(
    "a CONNECT has no body", "_read_connect", never("any((name in (b'content-length', b'transfer-encoding') for name, _ in head.headers))")
)
head.without(
    "what follows a CONNECT is no request",
    "_read_connect",
    skips("head.is_handshake = head.wants_close = ..."),
)
head.without("target and Host name the same host", "_origin_form", never("authority.lower() != host.lower()"))
head.without(
    "a bare line feed is refused",
    "check_unfinished",
    never("line_end == 0 or buffer[line_end - 1] != 0x0D"),
    "unit/proxy/listener/http1/test_head.py",
    "unit/proxy/listener/http1/test_channel.py",
)

body = door("proxy.listener.http1.body", "unit/proxy/listener/http1/test_body.py")
body.without("a chunk size is hexadecimal", "_SIZE_LINE", in_text(b"[0-9A-Fa-f]{1,16}+)", b"?:0x)?([0-9A-Fa-f]{1,16}+)[ \\t]*"))
body.without("a chunk ends where it says", "ChunkedBody._chunk_end", replaced(r'end == b"\r\n"', "len(end) == 2"))
body.without("chunk lines end with CR LF", "_line_end", never("end < at or data[end] != 0x0D"))
body.without("trailers are checked", "ChunkedBody._trailer", never("HEADER_LINE.fullmatch(line) is None"))
body.without("a trailer holds no C1 control", "ChunkedBody._trailer", never("has_c1_control(line)"))

channel = door("proxy.listener.http1.channel", "unit/proxy/listener/http1/test_channel.py")
channel.without(
    "what follows an early answer is no request",
    "Channel.closes_after",
    always("self._body is None"),
)
channel.without(
    "without our 100 nobody knows what follows",
    "Channel.closes_after",
    never("head.expects_continue"),
    "unit/proxy/listener/http1/test_request.py",
)
channel.without(
    "a broken body ends the connection",
    "Channel._feed",
    skips("self.refuse(refused)"),
    "unit/proxy/listener/http1/test_body.py",
)
channel.without("a head that takes too long ends", "Channel._next_request", skips("self._deadline.start(...)"))
channel.without(
    "a connection that has ended stays so",
    "Channel.handshakeCompleted",
    always("not self._is_closing"),
)
channel.without("requests sent ahead are not all kept", "Channel.dataReceived", never("len(self._buffer) > limits.BODY_BUFFER_BYTES"))
channel.without("a client that reads no answers is not asked for more", "Channel._next_request", never("self.is_write_paused"))

channel.without("a head in pieces stands behind", "Channel._next_request", skips("self._priority.demote()"))
channel.without("drops of a body stand behind", "Channel._feed", skips("self._priority.after_body_bytes(...)"))
channel.without("a descriptor has no past", "Channel.connectionLost", skips("self._slow_reader.end()"))

client_transport = door("proxy.listener.client_transport", "unit/proxy/listener/test_client_transport.py")
client_transport.without(
    "who stands behind waits for its turn to be answered", "ClientTransport.startWriting", never("self._stands_behind()")
)

selector = door("proxy.listener.fair_selector", "unit/proxy/listener/test_fair_selector.py")
selector.without("of those behind a turn takes few", "FairSelector.select", replaced("max(FEW, len(ready))", "len(self._keys) + 1"))
selector.without("a client that does not read stands behind", "SlowReader._go_on", skips("self._priority.demote()"))
selector.without("a new connection stands behind", "Priority.__init__", skips("self.demote()"))

client_socket = door("proxy.listener.client_socket", "unit/proxy/listener/test_client_socket.py")
client_socket.without(
    "the kernel takes little for a client that does not read",
    "ClientSocket.__init__",
    skips("plain.getHandle().setsockopt(...)"),
)

response = door("proxy.listener.http1.response", "unit/proxy/listener/http1/test_response.py")
response.without("a response header is one line", "ResponseHead._encode", never(r'block.count(b"\n") != len(lines)'))
response.without("a response header has no control characters", "ResponseHead._encode", never("_LINES.fullmatch(block) is None"))
response.without("the framing of our connection is ours", "ResponseHead._leaves_out", never("folded in _OURS"))

request = door("proxy.listener.http1.request", "unit/proxy/listener/http1/test_request.py")
request.without(
    "a response is as long as it says",
    "Exchange._send_body",
    never("self._sent > response.content_length or (is_last and self._sent < response.content_length)"),
    "unit/proxy/listener/http1/test_request.py",
    "unit/proxy/listener/http1/test_response.py",
    "unit/proxy/listener/http1/test_channel.py",
)

mutual_tls = door("proxy.listener.tls.certificates", "integration/test_client_certificates.py")
mutual_tls.without(
    "a client is asked for the host that it names",
    "Certificates._choose",
    skips("self._ask(connection, name)"),
    "unit/proxy/listener/tls/test_certificates.py",
)
mutual_tls.without(
    "no session is resumed where certificates count",
    "Certificates.serverConnectionForTLS",
    skips("connection.set_options(SSL.OP_NO_TICKET)"),
)
shown = door("proxy.incoming", "unit/proxy/test_incoming.py")
shown.without(
    "a certificate counts for the host of its connection", "client_certificate", never('server_name.lower().removesuffix(".") != host')
)
shown.without(
    "a header that was left out is looked at, too",
    "IncomingRequest.sent_names",
    lacks("*self.scope.get(...)"),
    "unit/proxy/planes/test_forward_auth.py",
)
doubtful = door("proxy.client_address", "unit/proxy/test_client_address.py")
doubtful.without("an address that trusted proxies leave in doubt is none", "source_ip", replaced('return ""', "return peer"))

proxy_header = door("proxy.listener.proxy_protocol.header", "unit/proxy/listener/proxy_protocol/test_header.py")
proxy_header.without(
    "a PROXY header is required",
    "find",
    replaced("raise MalformedProxyHeader(...)", "return ProxyHeader(0, None)"),
)
proxy_header.without("a PROXY line is strict", "_source_in_line", never("found is None"))
proxy_header.without("a PROXY header is bounded", "_binary", never("length > LONGEST_V2"))
proxy_header.without("a PROXY header's parts add up", "_check_tlvs", never("at != len(data)"))
balanced = door("proxy.listener.proxy_protocol.wrapper", "unit/proxy/listener/proxy_protocol/test_wrapper.py")
balanced.without(
    "no byte passes before a good PROXY header",
    "ProxyHeaderReader.look",
    replaced("self._refuse(str(error))", "self.hand_over(self._behind.factory, self.received)"),
)
balanced.without(
    "a PROXY header comes in time", "ProxyHeaderReader.__init__", replaced("min(behind.limits().read, MOST_SECONDS)", "3600.0")
)
redirects = door("proxy.listener.https_redirects", "unit/proxy/listener/test_https_redirects.py")
redirects.without(
    "a redirect to https leads to a host",
    "_host",
    replaced('host, _ = canonical_host(hosts[0] if hosts else b"")', "host = hosts[0].decode()"),
)

spdy = door("proxy.forwarding.spdy", "unit/proxy/forwarding/test_spdy.py")
spdy.without("only the protocol that was asked for opens a tunnel", "SpdyUpgrade.carry", skips("_require_accepted(raw_headers)"))
spdy_offer = door("proxy.upgrades.spdy", "unit/proxy/upgrades/test_spdy.py")
spdy_offer.without("no request body hides behind an upgrade", "offer", never('method not in ("GET", "POST") or has_body'))

tunnel = door("proxy.forwarding.tunnel", "unit/proxy/forwarding/test_spdy.py", "unit/proxy/forwarding/test_tcp.py")
tunnel.without(
    "nothing passes after access has ended",
    "_BytesSide.data_received",
    always("not self._tunnel.ended.done()"),
)
tunnel.without("an end waits for what was not taken", "_BytesSide.eof_received", always("not self.peer.is_congested"))
tunnel.without("what breaks off is broken off for the other side", "ByteTunnel.lost", never("error is not None and self.half_closes"))
tunnel.without(
    "a reader that stops stops the writer",
    "TunnelSide.pause_writing",
    skips("self.peer.hold(CONGESTED)"),
    "unit/proxy/forwarding/test_tunnel.py",
)

after_the_end = door("proxy.listener.tunnel", "unit/proxy/listener/test_tunnel.py")
after_the_end.without("what comes after a client's end is kept nowhere", "HalfClosingTLS.dataReceived", always("not self._has_input_ended"))
after_the_end.without(
    "who aborts after the client has left does no harm", "HalfClosingTLS._shutdownTLS", never("self._tlsConnection is None")
)

tcp = door("proxy.forwarding.tcp", "unit/proxy/forwarding/test_tcp.py")
tcp.without("access may end while an upstream is dialled", "carry_tcp", skips("handle.end = ..."))
tcp.without("no connection is left of a client that has gone", "carry_tcp", skips("tunnel.upstream.connection.abort()"))

tcp.without("a tunnel may not be silent for ever", "carry_tcp", passes(silence="None"))

silence = door("proxy.forwarding.idle_timer", "unit/proxy/forwarding/test_idle_timer.py")
silence.without(
    "silence is counted from the last word",
    "IdleTimer.hear",
    replaced("self._loop.time()", "self._begins or self._loop.time()"),
)
silence.without("who can't speak is not silent", "IdleTimer._look", never("self._is_hindered()"))

tunnels = door("proxy.planes.embedded", "unit/proxy/planes/test_embedded.py")
tunnels.without(
    "one session has only so many tunnels",
    "DataPlane._tunnel",
    replaced("self.streams.tunnels(...) >= MOST_TUNNELS", "self.streams.tunnels(...) < 0"),
)

counted = door("proxy.planes.open_streams", "unit/proxy/planes/test_open_streams.py")
counted.without(
    "who has an IPv6 network has no more tunnels than others",
    "OpenStreams.tunnels",
    replaced("client_network(stream.incoming.peer) == network", "stream.incoming.peer == peer"),
)

shared = door("foundation.client_network", "unit/foundation/test_client_network.py")
shared.without("what all share is bounded", "ConcurrencyLimit.take", never("self._taken.total() >= self._of_all"))
shared.without("a flood leaves others their places", "ConcurrencyLimit.take", never("network"))

one_credential = door("authorize.identity.credentials", "unit/authorize/identity/test_credentials.py")
one_credential.without("a request's credential is not a proxy's", "authorization_of", always("request.is_tunnel"))

TRANSPORT = "contract/test_transport.py"
groups = door("proxy.listener.tls.certificates", TRANSPORT)
groups.without("clients get the groups that we chose", "_context", skips("_set_groups(context)"))
groups.without("an operator may leave TLS 1.2 out", "Certificates.serverConnectionForTLS", never('self.min_version == "1.3"'))
pages_headers = door("gateproject.middleware", TRANSPORT)
pages_headers.without(
    "our pages are for TLS, too",
    "ResponseHeadersMiddleware.process_response",
    replaced("page_context(request).incoming.site.headers", "()"),
)
health = door("proxy.answers.own_pages", TRANSPORT)
health.without("nobody keeps an answer about health", "answer", omits("is_for_now"))

FULL = "integration/test_descriptors.py"
places = door("proxy.listener.server", FULL)
places.without("new clients leave room for upstreams", "BoundedAccept.doRead", never("is_short(self.fileno())"))
said = door("proxy.upstreams.upstream_errors", FULL)
said.without(
    "an upstream that can't be asked for lack of descriptors is told", "UpstreamErrors._reported", skips("report_shortage(UPSTREAMS)")
)
daphnes = door("proxy.listener.daphne_options", "unit/proxy/listener/test_daphne_options.py")
daphnes.without("an option of daphne without effect is refused", "problems", never("option.instead and value not in option.same"))
daphnes.without(
    "daphne believes no proxy that is not named", "_contradictions", never('"proxy_headers" in given and not options.trusted_proxies')
)
daphnes.without("under daphne TLS has one source", "_contradictions", never("not options.insecure_server"))
wrapping = door("proxy.listener.wrapping", "unit/proxy/listener/test_wrapping.py")
wrapping.without("a configuration with certificates is TLS", "wrapped", never("current().certificates is not None"))
command = door("proxy.listener.daphne_command", "unit/proxy/listener/test_daphne_command.py")
command.without("another Daphne is refused", "install", never("not daphne.__version__.startswith(VERSIONS)"))

DOORS = (
    daphnes,
    wrapping,
    command,
    places,
    said,
    groups,
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
    spdy_offer,
    proxy_header,
    balanced,
    redirects,
    mutual_tls,
    shown,
    doubtful,
    head,
    body,
    channel,
    selector,
    client_transport,
    client_socket,
    response,
    request,
)
