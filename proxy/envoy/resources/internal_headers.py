"""Headers that gate and Envoy tell each other in a request; none of them comes from a client, or goes to an upstream."""

from collections.abc import Mapping
from dataclasses import dataclass

from foundation.errors import BadRequest
from proxy.envoy.resources.bootstrap import TYPE, Json

PREFIX = "x-gate-edge-"
# gate's word, with a secret, that a request was judged: no other has a route.
JUDGED = f"{PREFIX}judged"
# Where it goes: the cluster, and the Host and the target that its upstream gets; a target of another kind is set by a script.
CLUSTER, PATH, HOST = f"{PREFIX}cluster", f"{PREFIX}path", f"{PREFIX}host"
# Envoy's name for the request, under which gate knows it while Envoy carries it.
NUMBER = f"{PREFIX}number"
# Set where the answer may be a stream, and gate itself ends what turns out to be none (proxy/envoy/proxied/proxied_request.py).
MAY_STREAM = f"{PREFIX}may-stream"
# The rules that a route has of its own for answers, as the script for those reads them.
RESPONSE = f"{PREFIX}response"
# Set where only Envoy knows whether there is a body, and the request may pass if there is none.  A script does, and then marks it.
BODILESS = f"{PREFIX}bodiless"
# Set where there is a body, of which Envoy takes the whole before any of it goes on.  A script waits for that, and then marks the request.
UPLOAD = f"{PREFIX}upload"
# Never set: a route to the cluster that it names leads nowhere.
NOWHERE = f"{PREFIX}nowhere"
# What Envoy knows of the request and its connection, and what it would overwrite or leave out before gate sees it.
FACTS = f"{PREFIX}facts"
CLIENT_PROTO, CLIENT_CONNECTION = f"{PREFIX}proto", f"{PREFIX}connection"
# On answers of Envoy's own: why there is none of the upstream's.
FAILED = f"{PREFIX}failed"
# Proof that it is our Envoy that asks.
TOKEN = f"{PREFIX}token"
# On questions of our script for answers.
SCRIPT = f"{PREFIX}script"
# What that script asks (response_filter.lua): a page in place of an answer, and an end to what is no stream.
INSTEAD, NO_STREAM = "/instead", "/no-stream"
# Every other name of ours is gone before a route is chosen, so that these are all that an upstream could see.
OURS = (JUDGED, CLUSTER, PATH, HOST, NUMBER, MAY_STREAM, RESPONSE, BODILESS, UPLOAD, FACTS, CLIENT_PROTO, CLIENT_CONNECTION)

_PREFIX = PREFIX.encode()
# Words without blanks, but for the last one, which a client chooses.
_FACTS = (
    "%DOWNSTREAM_REMOTE_ADDRESS% %DOWNSTREAM_DIRECT_REMOTE_ADDRESS% %PROTOCOL% %REQ(content-length)%/%REQ(transfer-encoding)%"
    " %REQUESTED_SERVER_NAME%"
)
_TOLD = {FACTS: _FACTS, NUMBER: "%UNIQUE_ID%", CLIENT_PROTO: "%REQ(x-forwarded-proto)%", CLIENT_CONNECTION: "%REQ(connection)%"}
_FACTS_NAME, _NUMBER_NAME, _PROTO_NAME, _CONNECTION_NAME = (name.encode() for name in _TOLD)

Address = tuple[str, int]


def is_between_us(name: bytes) -> bool:
    return name.startswith(_PREFIX)


def told_by_envoy() -> Json:
    """Early mutation, before a route is chosen: what a client sent under our names or Envoy's goes, and Envoy says what it knows."""
    mutations: list[Json] = [{"remove_on_match": {"key_matcher": {"prefix": prefix}}} for prefix in (PREFIX, "x-envoy-")]
    mutations += [
        {"append": {"header": {"key": key, "value": value}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD"}} for key, value in _TOLD.items()
    ]
    type_ = f"{TYPE}extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation"
    return {"name": "envoy.http.early_header_mutation.header_mutation", "typed_config": {"@type": type_, "mutations": mutations}}


@dataclass(slots=True)  # not frozen: one is made for each request
class EdgeFacts:
    """Facts of a request that Envoy tells.  `peer` is who is connected to Envoy, `client` whom a balancer names by its protocol."""

    client: Address | None
    peer: Address | None
    is_http2: bool
    server_name: str | None
    length: bytes
    coding: bytes
    proto: bytes
    connection: bytes
    number: str

    @classmethod
    def of(cls, last: Mapping[bytes, bytes]) -> "EdgeFacts":
        """Facts in a request's headers.  BadRequest where Envoy tells none."""
        told = last.get(_FACTS_NAME, b"").decode("latin-1").split(" ", 4)
        if len(told) < 4:
            raise BadRequest("a request of which Envoy tells nothing")
        client, peer, protocol, body, *name = told
        length, _, coding = body.partition("/")
        return cls(
            client=address_of(client),
            peer=address_of(peer),
            is_http2=protocol == "HTTP/2",
            server_name=name[0] if name and name[0] not in _UNSAID else None,
            length=b"" if length in _UNSAID else length.encode(),
            coding=b"" if coding in _UNSAID else coding.encode(),
            proto=last.get(_PROTO_NAME, b""),
            connection=last.get(_CONNECTION_NAME, b""),
            number=last.get(_NUMBER_NAME, b"").decode("latin-1"),
        )


_UNSAID = ("", "-")


def address_of(text: str) -> Address | None:
    """`127.0.0.1:5000`, `[::1]:5000`; None for anything else."""
    host, colon, port = text.rpartition(":")
    return (host.strip("[]").removeprefix("::ffff:"), int(port)) if colon and port.isdigit() else None
