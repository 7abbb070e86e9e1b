"""Defences of the Envoy data plane: who may be carried, who comes in behind it, and what Envoy does without gate."""

from tests.mutants.mutant import door

judge = door("proxy/envoy/ext_proc.py", "unit/proxy/envoy/test_ext_proc.py")
proof = door("proxy/envoy/authentication.py", "unit/proxy/envoy/test_authentication.py", "unit/proxy/envoy/test_ext_proc.py")
proof.without(
    "only our Envoy is answered",
    'await context.abort(grpc.StatusCode.UNAUTHENTICATED, "not our Envoy")',
    "pass",
)
timeouts = door("proxy/envoy/timeouts.py", "unit/proxy/envoy/test_timeouts.py")
timeouts.without("only our Envoy tells of cuts", "        await require_our_envoy(context, self._token)\n", "")
judge.without("our own pages are not an application's", "service.owner(incoming.request) is not Owner.DATA_PLANE or ", "")
judge.without("an upgrade is not carried", ' or b"upgrade" in incoming.headers', "")
judge.without("a body is read by gate", "(head.has_body or incoming.wants_events", "(incoming.wants_events")
judge.without("no client chooses HTTP/2", "if not is_http2 and (head", "if not incoming.is_grpc and (head")
carried = door("proxy/envoy/carried_request.py", "unit/proxy/envoy/test_carried_request.py")
carried.without("what Envoy carries ends with its access", "            task.cancel()\n", "            pass\n")
carried.without("an upstream sets no cookie of ours", "header_mutation=rewritten(headers, after, left_alone=_CONNECTION)", "")
carried.without(
    "trailers of requests bring nothing",
    "    response.header_mutation.remove_headers.extend({each.key for each",
    "    set({each.key for each",
)
judge.without("a handoff token goes with its call", "            self._internal_listener.forget(handoff)\n", "            pass\n")

plane = door("proxy/verdict.py", "unit/proxy/envoy/test_ext_proc.py")
plane.without("who is refused is not carried", "if compiled is None or not check.decision.is_allowed:", "if compiled is None:")

head = door("proxy/envoy/head.py", "unit/proxy/envoy/test_head.py")
head.without(
    "what Envoy adds is not the client's",
    "kept = [pair for pair in self.headers if not _is_of_envoy(pair[0])]",
    'kept = [pair for pair in self.headers if pair[0][:1] != b":"]',
)
head.without("what gate did not write goes", "    mutation.remove_headers.extend(name.decode", "    list(name.decode")

internal_listener = door("proxy/envoy/internal_listener.py", "unit/proxy/envoy/test_internal_listener.py")
internal_listener.without(
    "nobody comes in without a handoff token",
    '            raise NoHandoffToken("a request without a handoff token")\n',
    "            return scope\n",
)
internal_listener.without("a handoff token counts once", "self._admitted.pop(tokens[0], None)", "self._admitted.get(tokens[0])")

listener = door("proxy/envoy/listener.py", "unit/proxy/envoy/test_listener.py")
listener.without("Envoy's silence is a refusal", '"failure_mode_allow": False', '"failure_mode_allow": True')
listener.without("nobody resumes with a certificate", '"disable_stateless_session_resumption": True, ', "")
listener.without("who asks is the peer", '"use_remote_address": True', '"use_remote_address": False')

clusters = door("proxy/envoy/clusters.py", "unit/proxy/envoy/test_clusters.py")
clusters.without("an upstream's certificate is verified", "    if not route.tls_skip_verify:\n", "    if False:\n")
clusters.without(
    "its name is looked at", '            "match_typed_subject_alt_names": [{"san_type": kind, "matcher": {"exact": name}}],\n', ""
)

known = door("proxy/envoy/discovery.py", "unit/proxy/envoy/test_discovery.py")
known.without("who comes first finds every upstream", "            self.known = frozenset(clusters)\n", "            pass\n")
known.without(
    "an Envoy that begins knows what it will have", "                        if _listens(state):\n", "                        if True:\n"
)

silent = "integration/test_silent_readers.py::"
routes = door("proxy/envoy/listener.py", f"{silent}test_who_does_not_read_holds_no_connection", "unit/proxy/envoy/test_listener.py")
routes.without("who does not read holds no upstream", "({}, _seconds(limits.idle))", '({}, "0s")')
routes.without("what waits to be flushed is bounded", '"stream_flush_timeout": _seconds(limits.idle)', '"stream_flush_timeout": "0s"')
claims = door("proxy/envoy/ext_proc.py", "unit/proxy/envoy/test_ext_proc.py")
claims.without("who claims to want events is looked after by gate", " or incoming.wants_events", "")
claims.without("an application that may think is looked after by gate", " or plane.state.may_be_silent(verdict.route)):", "):")
first = door("proxy/envoy/listener.py", f"{silent}test_a_client_that_speaks_as_gate_does_lifts_no_bound")
first.without("no client names the first route", '[{"remove": name} for name in (CLUSTER, MAY_STREAM, HANDOFF_TOKEN)]', "[]")
told_cut = door("proxy/envoy/carried_request.py", f"{silent}test_an_answer_that_its_timeout_cuts_is_told_as_cut")
told_cut.without("an answer that was cut is told as cut", "if self._may_have_been_cut():", "if False:")
reset = door("proxy/envoy/carried_request.py", "unit/proxy/envoy/test_carried_request.py")
reset.without(
    "a cut is told however the call ends",
    'await asyncio.shield(spawn(self._tell_when_heard(envoy_timeout), name="the end of what Envoy carried"))',
    "await self._tell_when_heard(envoy_timeout)",
)
silence = door("proxy/envoy/carried_request.py", f"{silent}test_what_envoy_cuts_over_http_2_is_told_as_cut")
silence.without("what Envoy ends for its silence is told as cut", "0.9 * min(timeout, silence)", "0.9 * timeout")
thinking = door("proxy/envoy/carried_request.py", f"{silent}test_a_call_of_grpc_may_think")
thinking.without(
    "a call of gRPC may think for as long as its route lets it",
    "max(self._plane.state.idle, timeout) if self._incoming.is_grpc else timeout",
    "min(self._plane.state.idle, timeout)",
)
may_stream = door("proxy/envoy/carried_request.py", f"{silent}test_over_http_2_to_the_application_too")
may_stream.without("what is no stream ends in time", "if self._may_stream and not self._is_stream(after):", "if False:")
may_stream.without(
    "the head of a stream comes in time",
    "            yield HEAD_TIMEOUT,",
    '            yield b"x-nothing",',
    "unit/proxy/envoy/test_ext_proc.py",
)
bounds = door("proxy/envoy/bootstrap.py", "unit/proxy/envoy/test_bootstrap.py")
bounds.without("Envoy's memory is bounded", '{"name": HEAP, "typed_config": heap}, ', "")
bounds.without("Envoy's connections are bounded", ', {"name": CONNECTIONS, "typed_config": connections}', "")
windows = door("proxy/envoy/clusters.py", "unit/proxy/envoy/test_clusters.py")
windows.without(
    "streams hold each other up nowhere",
    '"initial_connection_window_size": _MOST_STREAMS * _AHEAD',
    '"initial_connection_window_size": _AHEAD',
)

DOORS = (
    routes,
    claims,
    first,
    told_cut,
    silence,
    reset,
    thinking,
    may_stream,
    bounds,
    windows,
    known,
    judge,
    proof,
    timeouts,
    carried,
    plane,
    head,
    internal_listener,
    listener,
    clusters,
)
