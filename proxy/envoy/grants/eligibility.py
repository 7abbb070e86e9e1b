"""Eligibility: may what was decided and written for this request be carried by Envoy alone for those that follow?  Pure; in doubt, no."""

import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass

from proxy.envoy.carried.carried_request import TIMEOUT
from proxy.envoy.grants.cookies import CookieNames, split
from proxy.envoy.head import FRAMING, EnvoyRequestHead, by_name
from proxy.envoy.resources.edge_headers import CLUSTER, is_between_us
from proxy.own_paths import HEALTH_PATHS
from proxy.rewriting.request_headers import RouteHeaders
from proxy.service import ProxyService
from proxy.upstreams.request import OutgoingRequest
from proxy.verdict import Carry, JudgedRequest

METHODS = frozenset({"GET", "HEAD"})
LONGEST_TARGET = 2048
# An assertion is made anew a minute before its person's session ends; the judge does that.
SHORTEST = 120.0  # seconds
OWN_WORDS = frozenset(path.removeprefix("/").lower() for path in (*HEALTH_PATHS, "/robots.txt"))
# Seconds that an upstream has where a grant says nothing else.
USUAL_TIMEOUT = 30.0
# What says that there is more than a head, or asks for more than an answer.
_NEVER = FRAMING | {b"content-type", b"content-encoding", b"authorization", b"proxy-authorization", b"upgrade", b"expect", b"trailer"}
_PATH = re.compile(rb"/[A-Za-z0-9._~/-]*")
_QUERY = re.compile(rb"[A-Za-z0-9._~!$'()*+,;:@/?&=%-]+")
_ESCAPE_IN_NAME = re.compile(rb"&[^=&]*%")
_PROGRAMS = b"gate"  # which every name of a program's token holds, however it is spelled


def is_plain(target: bytes) -> bool:
    """Whether a target is a path that no reader takes for another, none of ours, with a query that holds no token, or none at all."""
    path, mark, query = target.partition(b"?")
    if len(target) > LONGEST_TARGET or not _PATH.fullmatch(path) or b"//" in path or b"/." in path:
        return False
    if path[1:].partition(b"/")[0].lower().decode("ascii") in OWN_WORDS:
        return False
    if not mark:
        return True
    return bool(_QUERY.fullmatch(query)) and _PROGRAMS not in query.lower() and not _ESCAPE_IN_NAME.search(b"&" + query)


@dataclass(frozen=True, slots=True)
class Grant:
    """Grant for requests like the one that was judged, until `ends` (Unix seconds).

    `id` begins the ids of requests that are carried by it.  `key` is what they have in common: the client's address, the Host, and the
    cookies that were judged.  `headers` are written over theirs, and `names` says of each other header whether it goes on.
    """

    id: str
    key: bytes
    session_id: str
    user_id: str
    host: str  # as sessions know it
    ends: float
    replaced: frozenset[bytes]
    headers: dict[bytes, bytes]
    names: dict[bytes, bool]


def grant_of(
    service: ProxyService, head: EnvoyRequestHead, judged: JudgedRequest, carry: Carry, outgoing: OutgoingRequest, cluster: str
) -> Grant | None:
    """Grant that may follow from a request that Envoy carries, None for none.  `judged` must still be true."""
    identity, request = judged.check.identity, judged.incoming.request
    if identity is None or judged.sources is None or head.facts.client is None or head.has_body or request.method not in METHODS:
        return None
    if head.facts.length or head.line.ignored:  # which Envoy's script has a doubt about, too
        return None
    if not service.dataplane.sees_person_alone(judged, carry) or service.is_trusted(judged.incoming):
        return None
    target, host = head.target, head.host
    key = key_of(service, head)
    tokens = service.session_cookies.counting(judged.incoming.cookies, request.host_port, judged.now)
    if key is None or len(tokens) != 1 or tokens[0].session_id != identity.session_id:
        return None
    ends = min(tokens[0].expires, identity.expires) - SHORTEST / 2
    if not is_plain(target) or outgoing.target != target or outgoing.timeout is None or ends - judged.now < SHORTEST / 2:
        return None
    rules = service.dataplane.state.forwarding(carry.route).headers
    written = _written(service, head, rules, outgoing)
    if written is None:
        return None
    (_, sent_host), *_ = outgoing.headers
    if sent_host != host:
        written[b":authority"] = sent_host
    written[CLUSTER.encode()] = cluster.encode()
    if outgoing.timeout != USUAL_TIMEOUT:
        written[TIMEOUT] = b"%d" % max(1, round(outgoing.timeout * 1000))
    id = secrets.token_hex(8)
    written[b"x-request-id"] = id.encode()
    return Grant(
        id=id,
        key=key,
        session_id=identity.session_id,
        user_id=identity.user_id,
        host=request.host_port,
        ends=ends,
        replaced=rules.replaced,
        headers=written,
        names=known_names(rules, (name for name, _ in head.headers)),
    )


def key_of(service: ProxyService, head: EnvoyRequestHead) -> bytes | None:
    """Key by which Envoy would look for a grant; None where it would not look for any."""
    cookies = [value for name, value in head.headers if name == b"cookie"]
    if len(cookies) != 1 or head.facts.client is None:
        return None
    found = split(cookies[0], cookie_names(service))
    return None if found is None else b"%b|%b|%b" % (head.facts.client[0].encode(), head.host, found.ours)


def cookie_names(service: ProxyService) -> CookieNames:
    return CookieNames(service.session_cookies.name.encode(), service.session_cookies.companion_name.encode())


def known_names(rules: RouteHeaders, names: Iterable[bytes]) -> dict[bytes, bool]:
    """Of each header of the client whether it goes on, without those whose value has a say."""
    known = {}
    for name in names:
        if name.startswith(b":") or b"_" in name or b"\n" in name or name in _NEVER or is_between_us(name):
            continue
        if (goes_on := rules.becomes_of(name)) is not None:
            known[name] = goes_on
    return known


def _written(service: ProxyService, head: EnvoyRequestHead, rules: RouteHeaders, outgoing: OutgoingRequest) -> dict[bytes, bytes] | None:
    """Headers that gate wrote, over the client's, in this request; None where Envoy's script would not come to the same head."""
    before = by_name(head.headers)
    after = by_name(outgoing.headers[1:])
    known = known_names(rules, before)
    cookies = split(before.pop(b"cookie", [b""])[0], cookie_names(service))
    if b"cookie" in rules.replaced:  # other requests may bring some that go nowhere
        return None
    if cookies is None or after.pop(b"cookie", [None]) != [cookies.rest]:
        return None
    if any(known.get(name) is None or len(values) > 1 for name, values in before.items()):
        return None
    going_on = {name: values for name, values in before.items() if known[name]}
    written = {name: values for name, values in after.items() if name not in going_on}
    if going_on | written != after or any(len(values) > 1 or known_names(rules, [name]).get(name) for name, values in written.items()):
        return None
    written.pop(b"x-request-id", None)
    return {name: values[0] for name, values in written.items()}
