"""Defences of the Envoy data plane: who may be carried, who comes in behind it, and what Envoy does without gate."""

from tests.mutants.mutant import door

judge = door("proxy/envoy/judge.py", "unit/proxy/envoy/test_judge.py")
judge.without(
    "only our Envoy is answered",
    'await context.abort(grpc.StatusCode.UNAUTHENTICATED, "not our Envoy")',
    "pass",
)
judge.without("our own pages are not an application's", "service.owner(incoming.request) is not Owner.DATA_PLANE or ", "")
judge.without("an upgrade is not carried", ' or b"upgrade" in incoming.headers', "")
judge.without("a body is read by gate", " or (told.has_body and not is_http2)", "")
judge.without("no client chooses HTTP/2", "told.has_body and not is_http2", "told.has_body and not incoming.is_grpc")
carried = door("proxy/envoy/carried.py", "unit/proxy/envoy/test_carried.py")
carried.without("what Envoy carries ends with its access", "                task.cancel()\n", "                pass\n")
carried.without("an upstream sets no cookie of ours", "header_mutation=rewritten(headers, after, left_alone=_CONNECTION)", "")
carried.without(
    "trailers of requests bring nothing",
    "    response.header_mutation.remove_headers.extend({each.key for each",
    "    set({each.key for each",
)
judge.without("a ticket goes with its call", "            self._doorway.forget(ticket)\n", "            pass\n")

plane = door("proxy/dataplane.py", "unit/proxy/envoy/test_judge.py")
plane.without(
    "who is refused is not carried",
    "if compiled is None or not check.decision.is_allowed or compiled.route.redirect",
    "if compiled is None or compiled.route.redirect",
)

head = door("proxy/envoy/head.py", "unit/proxy/envoy/test_head.py")
head.without(
    "what Envoy adds is not the client's",
    "kept = [pair for pair in self.headers if not _is_of_envoy(pair[0])]",
    'kept = [pair for pair in self.headers if pair[0][:1] != b":"]',
)
head.without("what gate did not write goes", "    mutation.remove_headers.extend(name.decode", "    list(name.decode")

doorway = door("proxy/envoy/doorway.py", "unit/proxy/envoy/test_doorway.py")
doorway.without(
    "nobody comes in without a ticket", '            raise NoTicket("a request without a ticket")\n', "            return scope\n"
)
doorway.without("a ticket counts once", "self._admitted.pop(tickets[0], None)", "self._admitted.get(tickets[0])")

listener = door("proxy/envoy/listener.py", "unit/proxy/envoy/test_listener.py")
listener.without("Envoy's silence is a refusal", '"failure_mode_allow": False', '"failure_mode_allow": True')
listener.without("nobody resumes with a certificate", '"disable_stateless_session_resumption": True, ', "")
listener.without("who asks is the peer", '"use_remote_address": True', '"use_remote_address": False')

clusters = door("proxy/envoy/clusters.py", "unit/proxy/envoy/test_clusters.py")
clusters.without("an upstream's certificate is verified", "    if not route.tls_skip_verify:\n", "    if False:\n")
clusters.without(
    "its name is looked at", '            "match_typed_subject_alt_names": [{"san_type": kind, "matcher": {"exact": name}}],\n', ""
)

DOORS = (judge, carried, plane, head, doorway, listener, clusters)
