"""Defences of the listener: what is not strict HTTP/1.1 is refused, and every answer belongs to its question."""

from tests.mutants.mutant import door
from tests.mutants.operations import always, in_text, lacks, never, omits, passes, replaced, skips

head = door("proxy.listener.http1.request_head", "unit/proxy/listener/http1/test_request_head.py")
head.without("a Content-Length is digits", "_CONTENT_LENGTH", in_text(b"0-9", b"+-]?[0-9_ "))
head.without(
    "the only coding is chunked", "_require_chunked", replaced('codings[0].lower() != b"chunked"', 'b"chunked" not in codings[0].lower()')
)
head.without("exactly one Host", "_parse_host", replaced("len(hosts) != 1", "not hosts"))
head.without(
    "HTTP/1.0 is refused",
    "_parse_request_line",
    replaced('(major, minor) != (b"1", b"1")', '(major, minor) not in ((b"1", b"1"), (b"1", b"0"))'),
)

body = door("proxy.listener.http1.request_body", "unit/proxy/listener/http1/test_request_body.py")
body.without("a chunk size is hexadecimal", "_SIZE_LINE", in_text(b"[0-9A-Fa-f]{1,16}+)", b"?:0x)?([0-9A-Fa-f]{1,16}+)[ \\t]*"))
body.without("a chunk ends where it says", "ChunkedBody._chunk_end", replaced(r'end == b"\r\n"', "len(end) == 2"))

channel = door("proxy.listener.http1.http1_channel", "unit/proxy/listener/http1/test_http1_channel.py")
channel.without(
    "what follows an early answer is no request",
    "Channel.should_close",
    always("self._body is None"),
)

selector = door("proxy.listener.fair_selector", "unit/proxy/listener/test_fair_selector.py")
selector.without(
    "of those behind a turn takes few", "FairSelector.select", replaced("max(LOW_PRIORITY_PER_TURN, len(ready))", "len(self._keys) + 1")
)

mutual_tls = door("proxy.listener.tls.server_certificates", "integration/test_client_certificates.py")
mutual_tls.without(
    "no session is resumed where certificates count",
    "Certificates.serverConnectionForTLS",
    skips("connection.set_options(SSL.OP_NO_TICKET)"),
)
displayed = door("proxy.incoming_request", "unit/proxy/test_incoming_request.py")
displayed.without(
    "a header that was left out is looked at, too",
    "IncomingRequest.client_header_names",
    lacks("*self.scope.get(...)"),
    "unit/proxy/planes/test_forward_auth.py",
)
doubtful = door("proxy.client_address", "unit/proxy/test_client_address.py")
doubtful.without("an address that trusted proxies leave in doubt is none", "source_ip", replaced('return ""', "return peer"))

proxy_header = door("proxy.listener.proxy_protocol.proxy_header", "unit/proxy/listener/proxy_protocol/test_proxy_header.py")
proxy_header.without(
    "a PROXY header is required",
    "parse_header",
    replaced("raise MalformedProxyHeader(...)", "return ProxyHeader(0, None)"),
)
balanced = door("proxy.listener.proxy_protocol.header_reader", "unit/proxy/listener/proxy_protocol/test_header_reader.py")
balanced.without(
    "no byte passes before a good PROXY header",
    "ProxyHeaderReader.inspect",
    replaced("self._reject(str(error))", "self.switch_to(self._factory.factory, self.received)"),
)
balanced.without(
    "a PROXY header comes in time",
    "ProxyHeaderReader.__init__",
    replaced("min(factory.limits().read_timeout, HEADER_TIMEOUT_SECONDS)", "3600.0"),
)
redirects = door("proxy.listener.https_redirects", "unit/proxy/listener/test_https_redirects.py")
redirects.without(
    "a redirect to https leads to a host",
    "_host",
    replaced('host, _ = canonical_host(hosts[0] if hosts else b"")', "host = hosts[0].decode()"),
)

tcp = door("proxy.forwarding.tcp_tunnel", "unit/proxy/forwarding/test_tcp_tunnel.py")

tcp.without("a tunnel may not be silent for ever", "tunnel_tcp", passes(idle_timeout="None"))

silence = door("proxy.forwarding.idle_timer", "unit/proxy/forwarding/test_idle_timer.py")
silence.without(
    "silence is counted from the last word",
    "IdleTimer.touch",
    replaced("self._loop.time()", "self._idle_since or self._loop.time()"),
)

tunnels = door("proxy.planes.embedded", "unit/proxy/planes/test_embedded.py")
tunnels.without(
    "one session has a limited number of tunnels",
    "EmbeddedDataPlane._tunnel_tcp",
    replaced("self.streams.count_tunnels(...) >= MAX_TUNNELS_PER_CLIENT", "self.streams.count_tunnels(...) < 0"),
)

counted = door("proxy.planes.open_streams", "unit/proxy/planes/test_open_streams.py")
counted.without(
    "who has an IPv6 network has no more tunnels than others",
    "OpenStreams.count_tunnels",
    replaced("client_network(stream.incoming.peer) == network", "stream.incoming.peer == peer"),
)

TRANSPORT = "contract/test_transport.py"
groups = door("proxy.listener.tls.server_certificates", TRANSPORT)
groups.without("clients get the groups that we chose", "_context", skips("_set_groups(context)"))
groups.without("an operator may leave TLS 1.2 out", "Certificates.serverConnectionForTLS", never('self.min_version == "1.3"'))
pages_headers = door("gateproject.middleware", TRANSPORT)
pages_headers.without(
    "our pages are for TLS, too",
    "ResponseHeadersMiddleware.process_response",
    replaced("page_context(request).incoming.site.headers", "()"),
)
health = door("proxy.responses.builtin_pages", TRANSPORT)
health.without("a health response is not cached", "respond", omits("no_store"))

FULL = "integration/test_descriptors.py"
places = door("proxy.listener.bounded_accept", FULL)
places.without("new clients leave room for upstreams", "BoundedAccept.doRead", never("is_exhausted(self.fileno())"))
errors = door("proxy.upstreams.upstream_errors", FULL)
errors.without(
    "an upstream that cannot be dialed for lack of descriptors is reported",
    "UpstreamErrors._record",
    skips("report_exhaustion(UPSTREAMS)"),
)

# Defences of certificates that gate gets by itself: challenge responses for the authority alone, no key disclosed, backoff after failures.

before_tls = door("proxy.listener.tls.acme_challenge", "unit/proxy/listener/tls/test_acme_challenge.py")
before_tls.without(
    "who offers other protocols too is a client",
    "ClientHelloReader.inspect",
    replaced("hello.protocols == (ACME_TLS,)", "ACME_TLS in hello.protocols"),
)

self_made = door("proxy.listener.tls.self_signed", "unit/proxy/listener/tls/test_self_signed.py")
self_made.without("a proof speaks no HTTP", "_select_acme", replaced("SSL.NO_OVERLAPPING_PROTOCOLS", "offered[0]"))
self_made.without(
    "clients must not take a proof for a certificate", "tls_alpn_context", replaced("(identifier, True)", "(identifier, False)")
)

certificates = door("proxy.listener.tls.server_certificates", "unit/proxy/listener/tls/test_server_certificates.py")
certificates.without(
    "every certificate has its own staple",
    "load_context",
    replaced("acme_state.staple(fingerprint)", 'next(iter(acme_state.staples.values()), b"")'),
)

storage = door("proxy.autocert.certificate_storage", "unit/proxy/autocert/test_certificate_storage.py")
storage.without("files are for their owner's eyes", "CertificateStorage._write", replaced("0o600", "0o644"))
storage.without("one process is elected", "CertificateStorage.leader_lock", replaced("fcntl.LOCK_EX", "fcntl.LOCK_SH"))

attempts = door("proxy.autocert.order_backoff", "unit/proxy/autocert/test_order_backoff.py")
attempts.without("pauses grow", "BackoffState.after_failure", replaced("min(self.failures, len(BACKOFF_SCHEDULE) - 1)", "0"))

renewal = door("proxy.autocert.certificate_renewal", "unit/proxy/autocert/test_certificate_renewal.py")
renewal.without(
    "a certificate is renewed in time",
    "CertificateRenewal._is_due",
    replaced("active.certificate.chain.renew_at", "active.certificate.chain.not_after"),
)

of_envoy = door("proxy.envoy.resources.certificate_secrets", "unit/proxy/envoy/resources/test_certificate_secrets.py")
of_envoy.without(
    "Envoy's certificates have their own staples",
    "secrets_for",
    replaced("acme_state.staple(_fingerprint(pair.certificate))", "next(iter(acme_state.staples.values()))"),
)

authority = door("proxy.autocert.acme_client", "unit/proxy/autocert/test_acme_client.py", "integration/proxy/autocert/test_acme_client.py")
authority.without("the authority is who it says", "AcmeClient.__init__", replaced("str(trusted_ca)", "False", 2))
door("proxy.listener.client_socket", "unit/proxy/listener/test_client_socket.py").without(
    "the kernel takes little for a client that does not read", "ClientSocket.__init__", skips("plain.getHandle().setsockopt(...)")
)
door("proxy.listener.http1.http1_channel", "unit/proxy/listener/http1/test_http1_channel.py").without(
    "requests sent ahead are not all kept", "Channel.dataReceived", never("len(self._buffer) > listener_limits.BODY_BUFFER_BYTES")
)
door("proxy.listener.http1.http1_channel", "unit/proxy/listener/http1/test_exchange.py").without(
    "without gate's 100 the rest of the connection is undefined", "Channel.should_close", never("head.expects_continue")
)
door("proxy.listener.http1.http1_channel", "unit/proxy/listener/http1/test_http1_channel.py").without(
    "a head that takes too long ends", "Channel._start_next_request", skips("self._deadline.start(...)")
)
door("proxy.listener.http1.http1_channel", "unit/proxy/listener/http1/test_request_body.py").without(
    "a broken body ends the connection", "Channel._feed_body", skips("self.reject(rejection)")
)
door("proxy.listener.tls.acme_challenge", "unit/proxy/listener/tls/test_acme_challenge.py").without(
    "a proof is for a challenge of TLS", "ClientHelloReader._validate", never('challenge.kind != "tls-alpn-01"')
)
