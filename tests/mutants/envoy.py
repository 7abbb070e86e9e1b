"""Defences of the Envoy data plane: who may be carried, who comes in behind it, and what Envoy does without gate."""

from tests.mutants.mutant import door
from tests.mutants.operations import always, does, lacks, never, passes, replaced, returns, skips

judge = door("proxy.envoy.judge", "unit/proxy/envoy/test_judge.py")
files = door("proxy.envoy.service", "unit/proxy/envoy/test_service.py")
files.without("two gates do not share the files of Envoy", "_locked", skips("fcntl.flock(...)"))
judge.without("only our Envoy is answered", "Judge.answer", never("len(tokens) != 1 or not hmac.compare_digest(tokens[0], self._token)"))
judge.without("an upgrade is not carried", "Judge.how_carried", never('b"upgrade" in incoming.headers'))
judge.without("what may authenticate a connection is gate's", "Judge.how_carried", never("outgoing.connection_use"))
judge.without("a large body is read by gate", "Judge.how_carried", never("head.has_body"))
judge.without("a body of any length is not taken whole", "Judge.how_carried", always("head.is_small"))
judge.without("a kept form is sent by gate", "Judge.how_carried", never("plane.forms.may_be_button(incoming)"))
judge.without("what Envoy may show otherwise is read by gate", "Judge.how_carried", never("head.is_doubtful"))
judge.without("no client chooses HTTP/2", "Judge.how_carried", replaced("not is_http2", "not incoming.is_grpc", times=3))
judge.without(
    "no header says more than one",
    "_told",
    never('text.count(b"\\n") != len(lines) or text.count(b"\\r") != len(lines) or b"\\0" in text'),
)
carried = door("proxy.envoy.carried.carried_request", "unit/proxy/envoy/carried/test_carried_request.py", "unit/proxy/envoy/test_judge.py")
carried.without("what Envoy carries ends with its access", "CarriedRequest._end", skips("self.hang_up()"))
carried.without(
    "what may have a body is not marked", "CarriedRequest.told_to_envoy", never("head.is_bodiless_by_word and not self._is_http2()")
)
carried.without(
    "what has a body is not marked before it is whole", "CarriedRequest.told_to_envoy", never("outgoing.has_body and not self._is_http2()")
)
carried.without("who drips is cut off", "CarriedRequest.has_received", skips("self._end(Ending.CLIENT_LEFT)"))
carried.without("a byte a gap is no upload", "CarriedRequest.has_received", always("size - self._window_bytes >= BODY_FLOOR_BYTES"))
carried.without("a silent client is no answer of its application", "EnvoysWord.is_of_silent_client", returns("False"))
carried.without("how it ended is told", "EnvoysWord.ending", returns("Ending.COMPLETE"))
known_ones = door(
    "proxy.envoy.carried.carried_requests",
    "unit/proxy/envoy/carried/test_carried_requests.py",
    "unit/proxy/envoy/carried/test_carried_request.py",
)
known_ones.without(
    "who leaves while gate is asked is not carried for ever",
    "CarriedRequests.begin",
    never("self._over.pop(carried.number, None) is not None"),
)
known_ones.without("connections are cut", "CarriedRequests._cut_soon", replaced("await self._connections.cut(peers)", "0"))
tunnel_end = door("proxy.envoy.tunnel_end", "unit/proxy/envoy/test_internal_listener.py", "unit/proxy/envoy/test_tunnel_end.py")
tunnel_end.without("what is broken off does not look whole", "EnvoyTunnelEnd._break_off", skips("await self._cut([self._client])"))
upgrades = door("proxy.envoy.resources.ended_upgrades", "unit/proxy/envoy/resources/test_ended_upgrades.py")
upgrades.without("nobody loses what was not taken yet", "EndedUpgrades._finish", replaced("peer not in left", "True"))
upgrades.without("what else a connection carries goes on", "EndedUpgrades.tell", always('protocol == "HTTP/1.1"'))
unconnected = door("proxy.envoy.carried.carried_requests", "unit/proxy/envoy/test_unconnected.py")
unconnected.without(
    "nothing is carried a second time",
    "CarriedRequests.unconnected",
    replaced("self._replaceable.pop(id, None)", "self._replaceable.get(id)"),
)
unconnected.without("what has ended is not carried", "CarriedRequests.end", skips("self._replaceable.pop(carried.id, None)"))
unconnected.without("only another upstream stands in", "CarriedRequests.begin", always("carried.is_replaceable"))
come_again = door("proxy.envoy.unconnected", "unit/proxy/envoy/test_unconnected.py")
come_again.without("a request says once which it is", "UnconnectedRequests.__call__", always("len(ids) == 1"))
tried = door("proxy.envoy.carried.carried_request", "unit/proxy/envoy/test_judge.py", "unit/proxy/envoy/test_unconnected.py")
tried.without("what was sent is sent to nobody else", "_ELSEWHERE", replaced('b"connect-failure"', 'b"connect-failure,reset"'))
several = door("proxy.envoy.resources.clusters", "unit/proxy/envoy/resources/test_clusters.py")
several.without("gate speaks no HTTP/2 to upstreams", "is_replaceable", always("not route.upstream_http2"))
traced = door("proxy.envoy.judge", "unit/proxy/envoy/carried/test_carried_trace.py")
traced.without("a trace tells of what is carried", "Judge.how_carried", always("(tracing := in_force()) is None"))
answers = door("proxy.envoy.resources.answers", "unit/proxy/envoy/resources/test_answers.py")
answers.without("trailers of requests bring nothing", "AnswerFilter.filters", lacks('"request_trailers_mutations"'))
answers.without("no trailer sets a cookie", "AnswerFilter.filters", lacks('"response_trailers_mutations"'))
between = door(
    "proxy.envoy.resources.edge_headers",
    "unit/proxy/envoy/resources/test_edge_headers.py",
    "integration/test_silent_readers.py::test_a_client_that_speaks_as_gate_does_lifts_no_bound",
)
between.without("nobody speaks as gate does", "told_by_envoy", replaced('(PREFIX, "x-envoy-")', '("x-envoy-",)'))
between.without("who asks is told by Envoy", "EdgeFacts.of", never("len(told) < 4"))

plane = door("proxy.verdicts", "unit/proxy/envoy/test_judge.py")
plane.without("who is refused is not carried", "Verdicts.of", always("check.decision.is_allowed"))

head = door("proxy.envoy.head", "unit/proxy/envoy/test_head.py", "unit/proxy/envoy/test_judge.py")
head.without("what Envoy adds is not the client's", "EnvoyRequestHead.from_client", always("not is_of_envoy(pair[0])"))
head.without(
    "what gate did not write goes", "rewritten", replaced("[name for name in before if name not in new] + head.line.ignored", "[]")
)
head.without("what may be several lines goes on as it was judged", "rewritten", never('b"," in value'))
head.without("what HTTP/2 would not accept is set as it was judged", "rewritten", replaced("is_http2 and head.facts.is_http2", "False"))
head.without("no header has several values", "_single", never("any(len(values) > 1 for values in found.values())"))
head.without(
    "two Cookies, or Authorizations, have no reading", "EnvoyRequestHead.of", never('any(b"," in last.get(name, b"") for name in _SINGLE)')
)
head.without("bytes that are no UTF-8 are seen by gate", "EnvoyRequestHead.of", never('b"!" in text'))

internal_listener = door("proxy.envoy.internal_listener", "unit/proxy/envoy/test_internal_listener.py")
internal_listener.without(
    "nobody comes in without gate's mark",
    "InternalListener._checked_facts",
    never("len(marks) != 1 or not hmac.compare_digest(marks[0], self._mark)"),
)

internal_listener.without("no end of a tunnel is lost", "InternalListener._tunnel", never("facts.is_http2"))
internal_listener.without("a client that ends is gone", "InternalListener._tunnel", replaced("False", "True"))

judge_filter = door("proxy.envoy.resources.judge_filter", "unit/proxy/envoy/resources/test_judge_filter.py")
judge_filter.without("Envoy's silence is a refusal", "_ext_authz", passes(failure_mode_allow="True"))
judge_filter.without("only what gate has marked has a way", "JudgeFilter._to_upstream", replaced("[self._judged(), *has]", "has"))
judge_filter.without("a body that is not whole leads nowhere", "_coming", replaced("NOWHERE", "CLUSTER"))
judge_filter.without("a body may be silent for as long as gate bears it", "_coming", replaced("read", "flush"))
judge_filter.without("an answer of gate's frames no request", "_OF_ANSWER", replaced('"content-le"', '"x-nothing"'))
judge_filter.without("nothing of ours goes to an upstream", "JudgeFilter._to_upstream", lacks("*OURS"))
listener = door("proxy.envoy.resources.listener", "unit/proxy/envoy/resources/test_listener.py")
listener.without("nobody resumes with a certificate", "_chain", lacks('"disable_stateless_session_resumption"'))
listener.without("clients behind a trusted proxy share no connection", "_of_proxies", returns("[]"))
hosts = door("proxy.envoy.resources.hosts", "unit/proxy/envoy/resources/test_hosts.py")
hosts.without("a host of pages is read by Envoy", "tunnel_hosts", replaced("tcp.difference", "tcp.union"))
hosts.without("where addresses count, none is as old as its connection", "http3_hosts", never('"source_ip" in route.criteria'))
hosts.without("who is to show a certificate comes by TCP", "http3_hosts", replaced("certificate_hosts(options)", "()"))
connections = door("proxy.envoy.resources.http_connections", "unit/proxy/envoy/resources/test_http_connections.py")
connections.without("who asks is the peer", "http_connections", passes(use_remote_address="False"))
connections.without("a client says nothing in our words", "http_connections", replaced("[told_by_envoy()]", "[]"))
http3 = door("proxy.envoy.resources.http3", "unit/proxy/envoy/resources/test_http3.py")
http3.without("nobody sends a request again", "_transport", passes(enable_early_data="True"))
http3.without("who has a connection reaches no other host by it", "_route_config", replaced("sorted(hosts_of(options) - hosts)", "()"))
http3.without("another host has no connection", "http3_listener", lacks('"filter_chain_match"'))

cuts = door("proxy.envoy.connections", "unit/proxy/envoy/test_connections.py")
cuts.without("an Envoy that does not confirm a cut is ended", "Connections._cut", never("answer is None and not end.is_set()"))
shared = door("proxy.envoy.shared_connection", "unit/proxy/envoy/test_shared_connection.py")
shared.without("clients behind a trusted proxy end alone", "is_shared", replaced("incoming.is_trusted", "False"))
shared.without("an answer to a sign-out is never cut", "is_misdirected", returns("False"))
judges = door("proxy.envoy.judge_socket", "unit/proxy/envoy/test_judge_socket.py")
judges.without("the judge leaves descriptors for others", "JudgeListener._accept", never("is_short(self._listener.fileno())"))

clusters = door("proxy.envoy.resources.clusters", "unit/proxy/envoy/resources/test_clusters.py")
clusters.without("an upstream's certificate is verified", "_tls", never("not route.tls_skip_verify"))
clusters.without("its name is looked at", "_tls", lacks('"match_typed_subject_alt_names"'))

known = door("proxy.envoy.resources.discovery", "unit/proxy/envoy/resources/test_discovery.py")
known.without("who comes first finds every upstream", "Discovery.begin", skips("self.known = ..."))
known.without("what Envoy is to forget is not named to it", "Discovery.publish_clusters", skips("self.known &= clusters.keys()"))
known.without(
    "what it has not forgotten yet neither", "Discovery.taken", replaced("state.clusters & self.clusters.keys()", "state.clusters")
)

silent = "integration/test_silent_readers.py::"
routes = door(
    "proxy.envoy.resources.judge_filter",
    f"{silent}test_who_does_not_read_holds_no_connection",
    "unit/proxy/envoy/resources/test_judge_filter.py",
)
routes.without("who does not read holds no upstream", "JudgeFilter.routes", replaced("([], idle)", '([], "0s")'))
flushed = door(
    "proxy.envoy.resources.http_connections",
    f"{silent}test_who_does_not_read_holds_no_connection",
    "unit/proxy/envoy/resources/test_listener.py",
)
flushed.without("what waits to be flushed is bounded", "http_connections", passes(stream_flush_timeout='"0s"'))
claims = door("proxy.envoy.judge", "unit/proxy/envoy/test_judge.py")
claims.without("who claims to want events is looked after by gate", "Judge.how_carried", never("incoming.wants_events"))
claims.without(
    "an application that may think is looked after by gate", "Judge.how_carried", never("plane.state.may_be_silent(verdict.route)")
)
thinking = door("proxy.envoy.carried.carried_request", f"{silent}test_a_call_of_grpc_may_think")
thinking.without(
    "a call of gRPC may think for as long as its route lets it",
    "CarriedRequest._timeouts",
    replaced("max(self._plane.state.idle, timeout) if self._incoming.is_grpc else timeout", "min(self._plane.state.idle, timeout)"),
)
may_stream = door(
    "proxy.envoy.carried.carried_request",
    f"{silent}test_over_http_2_to_the_application_too",
    "unit/proxy/envoy/carried/test_carried_request.py",
)
may_stream.without("what is no stream ends in time", "CarriedRequest.is_no_stream", does("pass"))
may_stream.without(
    "the head of a stream comes in time",
    "CarriedRequest._timeouts",
    replaced("HEAD_TIMEOUT", 'b"x-nothing"'),
    "unit/proxy/envoy/test_judge.py",
)
bounds = door("proxy.envoy.resources.bootstrap", "unit/proxy/envoy/resources/test_bootstrap.py")
bounds.without("what waits for gate takes no descriptors", "_thresholds", replaced("connections", "1_000_000"))
bounds.without("Envoy's memory is bounded", "_overload", lacks('{"name": HEAP, "typed_config": heap}'))
bounds.without("Envoy's connections are bounded", "_overload", lacks('{"name": CONNECTIONS, "typed_config": connections}'))
windows = door("proxy.envoy.resources.clusters", "unit/proxy/envoy/resources/test_clusters.py")
windows.without(
    "streams hold each other up nowhere",
    "_HTTP2",
    passes(initial_connection_window_size="_AHEAD"),
)

DOORS = (
    files,
    routes,
    flushed,
    claims,
    thinking,
    may_stream,
    bounds,
    windows,
    known,
    judge,
    carried,
    known_ones,
    tunnel_end,
    upgrades,
    unconnected,
    come_again,
    tried,
    several,
    traced,
    answers,
    between,
    plane,
    head,
    internal_listener,
    judge_filter,
    listener,
    hosts,
    connections,
    http3,
    clusters,
    cuts,
    shared,
    judges,
)
