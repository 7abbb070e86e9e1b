"""Defences of the Envoy data plane: who may be carried, who comes in behind it, and what Envoy does without gate."""

from tests.mutants.mutant import door
from tests.mutants.operations import always, does, lacks, never, omits, passes, replaced, skips

judge = door("proxy.envoy.ext_proc", "unit/proxy/envoy/test_ext_proc.py")
proof = door("proxy.envoy.authentication", "unit/proxy/envoy/test_authentication.py", "unit/proxy/envoy/test_ext_proc.py")
proof.without(
    "only our Envoy is answered",
    "require_our_envoy",
    skips("await context.abort(...)"),
)
timeouts = door("proxy.envoy.timeouts", "unit/proxy/envoy/test_timeouts.py")
timeouts.without("only our Envoy tells of cuts", "EnvoyTimeouts.listen", skips("await require_our_envoy(...)"))
judge.without(
    "our own pages are not an application's", "ExtProcServer._how_carried", never("service.owner(incoming.request) is not Owner.DATA_PLANE")
)
judge.without("an upgrade is not carried", "ExtProcServer._how_carried", never('b"upgrade" in incoming.headers'))
judge.without("a body is read by gate", "ExtProcServer._how_carried", never("head.has_body"))
judge.without("no client chooses HTTP/2", "ExtProcServer._how_carried", replaced("not is_http2", "not incoming.is_grpc"))
carried = door("proxy.envoy.carried_request", "unit/proxy/envoy/test_carried_request.py")
carried.without("what Envoy carries ends with its access", "CarriedRequest._end", skips("task.cancel()"))
carried.without("an upstream sets no cookie of ours", "CarriedRequest._answered", omits("header_mutation"))
carried.without(
    "trailers of requests bring nothing",
    "without_all",
    replaced("response.header_mutation.remove_headers.extend", "set"),
)
judge.without("a handoff token goes with its call", "ExtProcServer._to_gate", skips("self._internal_listener.forget(handoff)"))

plane = door("proxy.verdict", "unit/proxy/envoy/test_ext_proc.py")
plane.without("who is refused is not carried", "Verdicts.of", always("check.decision.is_allowed"))

head = door("proxy.envoy.head", "unit/proxy/envoy/test_head.py")
head.without(
    "what Envoy adds is not the client's",
    "EnvoyRequestHead.from_client",
    replaced("not _is_of_envoy(pair[0])", 'pair[0][:1] != b":"'),
)
head.without("what gate did not write goes", "rewritten", replaced("mutation.remove_headers.extend", "list"))

internal_listener = door("proxy.envoy.internal_listener", "unit/proxy/envoy/test_internal_listener.py")
internal_listener.without(
    "nobody comes in without a handoff token",
    "InternalListener._as_client_sent",
    replaced("raise NoHandoffToken(...)", "return scope"),
)
internal_listener.without(
    "a handoff token counts once",
    "InternalListener._as_client_sent",
    replaced("self._admitted.pop(tokens[0], None)", "self._admitted.get(tokens[0])"),
)

listener = door("proxy.envoy.listener", "unit/proxy/envoy/test_listener.py")
listener.without("Envoy's silence is a refusal", "_ext_proc", passes(failure_mode_allow="True"))
listener.without("nobody resumes with a certificate", "_chain", lacks('"disable_stateless_session_resumption"'))
listener.without("who asks is the peer", "_connections", passes(use_remote_address="False"))

eligibility = door("proxy.envoy.grants.eligibility", "unit/proxy/envoy/grants/test_eligibility.py")
eligibility.without("other methods are judged", "grant_of", never("request.method not in METHODS"))
eligibility.without("an odd target is judged", "grant_of", never("not is_plain(target)"))
eligibility.without("who comes by a trusted proxy is judged", "grant_of", never("service.is_trusted(judged.incoming)"))
eligibility.without("cookies that go nowhere go nowhere", "_written", never('b"cookie" in rules.replaced'))
eligibility.without("paths of ours are gate's", "is_plain", never("path[1:].partition(b'/')[0].lower().decode('ascii') in OWN_WORDS"))
eligibility.without("a token in the query is judged", "is_plain", always("_PROGRAMS not in query.lower()"))
eligibility.without("an escaped name in the query is judged", "is_plain", always('not _ESCAPE_IN_NAME.search(b"&" + query)'))
eligibility.without("what says that there is a body is never known", "known_names", never("name in _NEVER"))
plain = door("proxy.envoy.grants.cookies", "unit/proxy/envoy/grants/test_cookies.py")
plain.without("a session that comes twice is judged", "split", always("name not in found"))
plain.without("a session without its companion is judged", "split", never("names.companion not in found"))
plain.without(
    "a session in other letters is judged", "CookieNames.is_beside", always("name.lower() not in (own, HOST_PREFIX.lower().encode() + own)")
)
told = door("proxy.envoy.grants.access_log", "unit/proxy/envoy/grants/test_access_log.py")
told.without("an odd line does no harm", "GrantAccessLog.tell", never("not all(part.isdecimal() for part in parts[2:5])"))
told.without("no more are known than may be", "GrantAccessLog.know", skips("self._known.popitem(last=False)"))
alike = door("proxy.planes.embedded", "unit/proxy/envoy/grants/test_eligibility.py")
alike.without("what sees more than the person is judged", "DataPlane._decides_by_person", always("compiled.sees_person_alone"))
alike.without(
    "a host of several routes is judged",
    "DataPlane._decides_by_person",
    always("self._authorize.routes.route_of_all_paths(request.host, request.port) is compiled"),
)
alike.without("what is in shadow is judged", "DataPlane.sees_person_alone", never("authorize.has_shadow"))
alike.without("every decision is kept where all are", "DataPlane.sees_person_alone", never("self._keeps_all"))
alike.without(
    "what is rewritten by the request is judged", "DataPlane.sees_person_alone", always("self.state.forwarding(compiled).is_alike")
)
grants = door("proxy.envoy.grants.keeper", "unit/proxy/envoy/grants/test_keeper.py")
grants.without("no answer overtakes a change", "GrantKeeper.consider", never("judged.changes != self._streams.changes"))
grants.without("who hears of no change gives nothing", "GrantKeeper.consider", never("not self._replica.is_following"))
grants.without("an ended session's connections are cut", "GrantKeeper._see_to", skips("await self._cut(...)", times=2))
grants.without("whom a change keeps out is cut", "GrantKeeper._judge_anew", never("not may_go_on"))
grants.without("what was carried before is cut with its session", "GrantKeeper._see_to", skips("self._remember(given)"))
grants.without("the lease ends first", "GrantKeeper.void", skips("self._table.void_lease()"))
shared = door("proxy.envoy.grants.table", "unit/proxy/envoy/grants/test_table.py")
shared.without("a grant that was taken back is void", "GrantTable.take_back", does("pass"))
shared.without("no slot is filled again at once", "GrantTable.free", replaced("clock() + REST", "clock()"))

clusters = door("proxy.envoy.clusters", "unit/proxy/envoy/test_clusters.py")
clusters.without("an upstream's certificate is verified", "_tls", never("not route.tls_skip_verify"))
clusters.without("its name is looked at", "_tls", lacks('"match_typed_subject_alt_names"'))

known = door("proxy.envoy.discovery", "unit/proxy/envoy/test_discovery.py")
known.without("who comes first finds every upstream", "Discovery.publish", skips("self.known = ..."))
known.without("an Envoy that begins knows what it will have", "Discovery.taken", always("_listens(state)"))

silent = "integration/test_silent_readers.py::"
routes = door("proxy.envoy.listener", f"{silent}test_who_does_not_read_holds_no_connection", "unit/proxy/envoy/test_listener.py")
routes.without("who does not read holds no upstream", "_routes", replaced("({}, _seconds(limits.idle))", '({}, "0s")'))
routes.without("what waits to be flushed is bounded", "_connections", passes(stream_flush_timeout='"0s"'))
claims = door("proxy.envoy.ext_proc", "unit/proxy/envoy/test_ext_proc.py")
claims.without("who claims to want events is looked after by gate", "ExtProcServer._how_carried", never("incoming.wants_events"))
claims.without(
    "an application that may think is looked after by gate", "ExtProcServer._how_carried", never("plane.state.may_be_silent(verdict.route)")
)
first = door("proxy.envoy.listener", f"{silent}test_a_client_that_speaks_as_gate_does_lifts_no_bound")
first.without(
    "no client names the first route",
    "_told_by_the_client",
    replaced("[{'remove': name} for name in (CLUSTER, MAY_STREAM, HANDOFF_TOKEN, CARRIED)]", "[]"),
)
told_cut = door("proxy.envoy.carried_request", f"{silent}test_an_answer_that_its_timeout_cuts_is_told_as_cut")
told_cut.without("an answer that was cut is told as cut", "CarriedRequest.run", never("self._may_have_been_cut()"))
reset = door("proxy.envoy.carried_request", "unit/proxy/envoy/test_carried_request.py")
reset.without(
    "a cut is told however the call ends",
    "CarriedRequest.run",
    replaced(
        'asyncio.shield(spawn(self._tell_when_heard(envoy_timeout), name="the end of what Envoy carried"))',
        "self._tell_when_heard(envoy_timeout)",
    ),
)
silence = door("proxy.envoy.carried_request", f"{silent}test_what_envoy_cuts_over_http_2_is_told_as_cut")
silence.without(
    "what Envoy ends for its silence is told as cut", "CarriedRequest._may_have_been_cut", replaced("min(timeout, silence)", "timeout")
)
thinking = door("proxy.envoy.carried_request", f"{silent}test_a_call_of_grpc_may_think")
thinking.without(
    "a call of gRPC may think for as long as its route lets it",
    "CarriedRequest._timeouts",
    replaced("max(self._plane.state.idle, timeout) if self._incoming.is_grpc else timeout", "min(self._plane.state.idle, timeout)"),
)
may_stream = door("proxy.envoy.carried_request", f"{silent}test_over_http_2_to_the_application_too")
may_stream.without("what is no stream ends in time", "CarriedRequest._answered", never("self._may_stream and not self._is_stream(after)"))
may_stream.without(
    "the head of a stream comes in time",
    "CarriedRequest._timeouts",
    replaced("HEAD_TIMEOUT", 'b"x-nothing"'),
    "unit/proxy/envoy/test_ext_proc.py",
)
bounds = door("proxy.envoy.bootstrap", "unit/proxy/envoy/test_bootstrap.py")
bounds.without("Envoy's memory is bounded", "_overload", lacks('{"name": HEAP, "typed_config": heap}'))
bounds.without("Envoy's connections are bounded", "_overload", lacks('{"name": CONNECTIONS, "typed_config": connections}'))
windows = door("proxy.envoy.clusters", "unit/proxy/envoy/test_clusters.py")
windows.without(
    "streams hold each other up nowhere",
    "_HTTP2",
    passes(initial_connection_window_size="_AHEAD"),
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
    eligibility,
    plain,
    told,
    alike,
    grants,
    shared,
)
