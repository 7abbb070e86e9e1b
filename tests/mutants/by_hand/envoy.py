"""Defences of the Envoy data plane: who may be carried, who comes in behind it, and what Envoy does without gate."""

from tests.mutants.mutant import door, script_door
from tests.mutants.operations import does, lacks, never, passes, replaced, returns

ext_authz = door("proxy.envoy.ext_authz_server", "unit/proxy/envoy/test_ext_authz_server.py")
ext_authz.without("no client chooses HTTP/2", "ExtAuthzServer.authorize", replaced("not is_http2", "not incoming.is_grpc", times=3))
forwarded = door(
    "proxy.envoy.proxied.proxied_request", "unit/proxy/envoy/proxied/test_proxied_request.py", "unit/proxy/envoy/test_ext_authz_server.py"
)
forwarded.without("how it ended is reported", "RequestSummary.ending", returns("TerminationReason.COMPLETE"))
known_ones = door(
    "proxy.envoy.proxied.active_requests",
    "unit/proxy/envoy/proxied/test_active_requests.py",
    "unit/proxy/envoy/proxied/test_proxied_request.py",
)
known_ones.without("connections are cut", "ActiveRequests._reset_pending", replaced("await self._connections.reset(peers)", "0"))
unconnected = door("proxy.envoy.proxied.active_requests", "unit/proxy/envoy/test_connect_failover.py")
unconnected.without(
    "nothing is carried a second time",
    "ActiveRequests.take_for_failover",
    replaced("self._failover_requests.pop(id, None)", "self._failover_requests.get(id)"),
)
tried = door(
    "proxy.envoy.proxied.proxied_request", "unit/proxy/envoy/test_ext_authz_server.py", "unit/proxy/envoy/test_connect_failover.py"
)
tried.without(
    "what was sent is sent to no other upstream", "_RETRY_ON_CONNECT_FAILURE", replaced('b"connect-failure"', 'b"connect-failure,reset"')
)
answers = door("proxy.envoy.resources.response_filter", "unit/proxy/envoy/resources/test_response_filter.py")
answers.without("trailers of requests bring nothing", "ResponseFilter.filters", lacks('"request_trailers_mutations"'))
answers.without("no trailer sets a cookie", "ResponseFilter.filters", lacks('"response_trailers_mutations"'))
between = door(
    "proxy.envoy.resources.internal_headers",
    "unit/proxy/envoy/resources/test_internal_headers.py",
    "integration/test_silent_readers.py::test_a_client_that_speaks_as_gate_does_lifts_no_bound",
)
between.without("no client can claim to be gate", "early_header_mutation", replaced('(PREFIX, "x-envoy-")', '("x-envoy-",)'))

head = door("proxy.envoy.envoy_request_head", "unit/proxy/envoy/test_envoy_request_head.py", "unit/proxy/envoy/test_ext_authz_server.py")
head.without(
    "what gate did not write goes",
    "header_mutations",
    replaced("[name for name in before if name not in new] + head.line.ignored_header_names", "[]"),
)
head.without(
    "what HTTP/2 would not accept is set as it was judged", "header_mutations", replaced("is_http2 and head.downstream.is_http2", "False")
)
head.without(
    "two Cookies, or Authorizations, have no reading",
    "EnvoyRequestHead.parse",
    never('any(b"," in last.get(name, b"") for name in _SINGLE)'),
)

internal_listener = door("proxy.envoy.internal_listener", "unit/proxy/envoy/test_internal_listener.py")

internal_listener.without("a client that ends is gone", "InternalListener._tunnel", replaced("False", "True"))

ext_authz_filter = door("proxy.envoy.resources.ext_authz_filter", "unit/proxy/envoy/resources/test_ext_authz_filter.py")
ext_authz_filter.without("Envoy's silence is a refusal", "_ext_authz", passes(failure_mode_allow="True"))
ext_authz_filter.without(
    "only what gate has marked has a way", "ExtAuthzFilter._upstream_route", replaced("[self._has_secret(), *has]", "has")
)
ext_authz_filter.without("a body that is not whole leads nowhere", "_small_body_route", replaced("NO_CLUSTER", "CLUSTER"))
ext_authz_filter.without("a body may be silent for as long as gate bears it", "_small_body_route", replaced("read", "flush"))
ext_authz_filter.without("an answer of gate's frames no request", "_RESPONSE_FRAMING", replaced('"content-le"', '"x-nothing"'))
ext_authz_filter.without("no header of gate goes to an upstream", "ExtAuthzFilter._upstream_route", lacks("*INTERNAL_HEADERS"))
listener = door("proxy.envoy.resources.edge_listener", "unit/proxy/envoy/resources/test_edge_listener.py")
listener.without("no session with a certificate is resumed", "_chain", lacks('"disable_stateless_session_resumption"'))
listener.without("clients behind a trusted proxy share no connection", "_trusted_proxy_kinds", returns("[]"))
hosts = door("proxy.envoy.resources.configured_hosts", "unit/proxy/envoy/resources/test_configured_hosts.py")
hosts.without("a host of pages is read by Envoy", "tunnel_hosts", replaced("tcp.difference", "tcp.union"))
hosts.without("who is to show a certificate comes by TCP", "http3_hosts", replaced("client_certificate_hosts(options)", "()"))
connections = door("proxy.envoy.resources.http_connection_manager", "unit/proxy/envoy/resources/test_http_connection_manager.py")
connections.without("who asks is the peer", "http_connection_manager", passes(use_remote_address="False"))
connections.without("a client says nothing in our words", "http_connection_manager", replaced("[early_header_mutation()]", "[]"))
http3 = door("proxy.envoy.resources.http3_listener", "unit/proxy/envoy/resources/test_http3_listener.py")
http3.without("no request is repeated", "_transport", passes(enable_early_data="True"))
http3.without("who has a connection reaches no other host by it", "_route_config", replaced("sorted(all_hosts(options) - hosts)", "()"))
http3.without("another host has no connection", "http3_listener", lacks('"filter_chain_match"'))

clusters = door("proxy.envoy.resources.upstream_clusters", "unit/proxy/envoy/resources/test_upstream_clusters.py")
clusters.without("its name is looked at", "_tls", lacks('"match_typed_subject_alt_names"'))

known = door("proxy.envoy.resources.file_discovery", "unit/proxy/envoy/resources/test_file_discovery.py")
known.without(
    "what it has not forgotten yet neither", "Discovery.wait_applied", replaced("state.clusters & self.clusters.keys()", "state.clusters")
)

silent = "integration/test_silent_readers.py::"
routes = door(
    "proxy.envoy.resources.ext_authz_filter",
    f"{silent}test_silent_reader_is_disconnected",
    "unit/proxy/envoy/resources/test_ext_authz_filter.py",
)
routes.without("who does not read holds no upstream", "ExtAuthzFilter.routes", replaced("([], idle)", '([], "0s")'))
flushed = door(
    "proxy.envoy.resources.http_connection_manager",
    f"{silent}test_silent_reader_is_disconnected",
    "unit/proxy/envoy/resources/test_edge_listener.py",
)
flushed.without("what waits to be flushed is bounded", "http_connection_manager", passes(stream_flush_timeout='"0s"'))
thinking = door("proxy.envoy.proxied.proxied_request", f"{silent}test_a_call_of_grpc_may_think")
thinking.without(
    "a call of gRPC may think for as long as its route lets it",
    "ProxiedRequest._timeouts",
    replaced(
        "max(self._plane.forwarding_table.idle_timeout, timeout) if self._incoming.is_grpc else timeout",
        "min(self._plane.forwarding_table.idle_timeout, timeout)",
    ),
)
may_stream = door(
    "proxy.envoy.proxied.proxied_request",
    f"{silent}test_over_http_2_to_the_application_too",
    "unit/proxy/envoy/proxied/test_proxied_request.py",
)
may_stream.without("what is no stream ends in time", "ProxiedRequest.on_not_streaming", does("pass"))
may_stream.without(
    "the head of a stream comes in time",
    "ProxiedRequest._timeouts",
    replaced("HEAD_TIMEOUT", 'b"x-nothing"'),
    "unit/proxy/envoy/test_ext_authz_server.py",
)
bounds = door("proxy.envoy.resources.bootstrap", "unit/proxy/envoy/resources/test_bootstrap.py")
bounds.without("what waits for gate takes no descriptors", "_thresholds", replaced("connections", "1_000_000"))
bounds.without("Envoy's memory is bounded", "_overload", lacks('{"name": HEAP, "typed_config": heap}'))
bounds.without("Envoy's connections are bounded", "_overload", lacks('{"name": CONNECTIONS, "typed_config": connections}'))
windows = door("proxy.envoy.resources.upstream_clusters", "unit/proxy/envoy/resources/test_upstream_clusters.py")
windows.without(
    "streams hold each other up nowhere",
    "_HTTP2",
    passes(initial_connection_window_size="_AHEAD"),
)

# Defences in the scripts that Envoy runs: what of an answer reaches a client.

answers = script_door(
    "proxy/envoy/resources/response_filter.lua",
    "contract/test_data_planes.py::test_upstream_cannot_set_gate_cookies",
)
answers.without("no application sets our cookies", "if is_gate_cookie(value) or", "if")
answers.without(
    "no application sets a cookie that its browser could not send back",
    " or has_c1_control(value)",
    "",
    "contract/test_data_planes.py::test_no_cookie_comes_or_goes_that_is_no_text",
)
answers.without(
    "what a connection names ends there",
    "if not (CONNECTION_OPTIONS[option] or ADDED_NAMES[option]) and option:byte(1) ~= 58 then headers:remove(option) end",
    "",
)
answers.without(
    "only Envoy says that it failed",
    "prefix and reply:sub(1, #prefix) == prefix and reply:sub(#prefix + 1)",
    "said",
    "contract/test_data_planes.py::test_no_application_cuts_its_answer_so_that_the_rest_of_it_answers_another_request",
)
answers.without(
    "no application removes a header of the operator", "(CONNECTION_OPTIONS[option] or ADDED_NAMES[option])", "CONNECTION_OPTIONS[option]"
)

last_step = script_door("proxy/envoy/resources/finalize.lua", "contract/test_request_bodies.py::test_a_client_that_drips_is_cut_off")
last_step.without("of a body nothing goes on before it is whole", "    handle:body()\n")
