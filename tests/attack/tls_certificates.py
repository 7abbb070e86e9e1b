"""B34: does any certificate, by any name, open a route whose authority has not issued it?"""

import ipaddress
from collections.abc import Iterator
from datetime import timedelta
from itertools import product

from cryptography import x509

from tests.attack.run import Case, Outcome, attack
from tests.attack.target import Target
from tests.attack.tls_client import VERSIONS
from tests.attack.tls_stage import ANN, ANNS, BOB, BOBS, GATES, VALID, full, stage
from tests.support.client_certificates import SERVER, Issued, authority

DAY = timedelta(days=1)
OTHERS = authority("ann's")
MIDDLE = ANNS.issue("middle", is_authority=True, usages=())
SHORT = ANNS.issue("short", is_authority=True, usages=(), path_length=0)
BELOW = SHORT.issue("below", is_authority=True, usages=())
STALE = ANNS.issue("stale", is_authority=True, usages=(), begins=-9 * DAY, ends=-DAY)
FOR_SERVERS = ANNS.issue("for servers", is_authority=True, usages=(SERVER,))
NO_SIGNING = x509.KeyUsage(True, False, False, False, False, False, False, False, False)
MUTE = ANNS.issue("mute", is_authority=True, usages=(), extensions=[(NO_SIGNING, True)])
UNKNOWN = x509.UnrecognizedExtension(x509.ObjectIdentifier("1.3.6.1.4.1.99999.1"), b"\x05\x00")
NUL_NAME = x509.SubjectAlternativeName(
    [x509.OtherName(x509.ObjectIdentifier("1.3.6.1.4.1.311.20.2.3"), b"\x0c\x07ann\x00eve"), x509.IPAddress(ipaddress.ip_address("::1"))]
)
# Certificate presented at the routes of ann's authority, and whether it is valid there; None where both answers are correct.
PRESENTED: dict[str, tuple[tuple[Issued, ...], bool | None]] = {
    "nothing": ((), False),
    "ann's": ((ANN,), True),
    "by an intermediate": ((MIDDLE.issue("leaf"), MIDDLE), True),
    "the intermediate, and others beside": ((MIDDLE.issue("leaf"), BOB, MIDDLE, OTHERS), True),
    "the same certificate many times": ((ANN,) * 7, None),
    "a hundred others beside": ((BOB, *(ANN,) * 100), False),
    "an own name with a NUL": ((ANNS.issue("ann", extensions=[(NUL_NAME, False)]),), None),
    "bob's": ((BOB,), False),
    "bob's with ann's beside": ((BOB, ANN, ANNS), False),
    "an authority of the same name": ((OTHERS.issue("ann"),), False),
    "an authority of the same name, beside": ((OTHERS.issue("ann"), OTHERS), False),
    "the right authority beside": ((OTHERS.issue("ann"), ANNS), False),
    "self-issued": ((authority("self"),), False),
    "self-issued, for clients": ((BOBS.issue("x").issue("x"),), False),
    "the authority's own": ((ANNS,), False),
    "the authority's own, for clients": ((ANNS.issue("ann", is_authority=True),), False),
    "an intermediate's own": ((MIDDLE,), False),
    "without its intermediate": ((MIDDLE.issue("leaf"),), False),
    "issued by a client": ((ANN.issue("eve"), ANN), False),
    "issued by a client's client": ((ANN.issue("e").issue("eve"), ANN.issue("e"), ANN), False),
    "below a path length of none": ((BELOW.issue("eve"), BELOW, SHORT), False),
    "by a stale intermediate": ((STALE.issue("eve"), STALE), False),
    "by an intermediate for servers": ((FOR_SERVERS.issue("eve"), FOR_SERVERS), False),
    "by an intermediate that may not sign": ((MUTE.issue("eve"), MUTE), False),
    "expired": ((ANNS.issue("ann", begins=-9 * DAY, ends=-DAY),), False),
    "not yet valid": ((ANNS.issue("ann", begins=DAY, ends=9 * DAY),), False),
    "for servers": ((ANNS.issue("ann", usages=(SERVER,)),), False),
    "for nothing": ((ANNS.issue("ann", usages=()),), False),
    "with an unknown critical extension": ((ANNS.issue("ann", extensions=[(UNKNOWN, True)]),), False),
}
# By which name the client connects to `ann`; None sends none.  `True`: a good certificate opens the route by this name.
NAMES: dict[bytes | None, bool | None] = {
    full("ann"): True,
    None: True,
    b"ANN.localhost": None,
    b"aNN.LOCALHOST": None,
    b"ann.localhost.": None,
    b"ann.localhost..": False,
    b"ann.localhost ": False,
    b"ann.localhost:443": False,
    b"x.ann.localhost": False,
    b"*.localhost": False,
    b"localhost": False,
    b".": False,
    b"127.0.0.1": False,
    b"\xff\xfe": False,
    b"xn--ann.localhost": False,
    b"a" * 255: False,
    full("open"): False,
    full("bob"): False,
    full("changing"): False,
    full("one.wild"): False,
    full("two.one.wild"): False,
    b"wild.localhost": False,
    b"authenticate.localhost": False,
    b"unknown.example": False,
}


@attack("B34", "certificates of every kind, by every name", together=16, sample=120, minutes=1)
def certificates(target: Target) -> Iterator[Case]:
    for gate, version, kind, name in product(GATES, VERSIONS, PRESENTED, NAMES):
        presented, proves = PRESENTED[kind]
        counts = NAMES[name]
        is_invalid = proves is False or counts is False
        yield _case(
            f"{gate}, TLS {version}, {kind}, as {name!r}", gate, "ann", presented, name, version, not is_invalid, bool(proves and counts)
        )


@attack("B34", "every route by the name of every other", together=16, sample=60)
def routes(target: Target) -> Iterator[Case]:
    names = (*(full(each) for each in (*VALID, "open")), b"two.one.wild.localhost", b"ONE.WILD.localhost", None)
    for gate, version, host, owner, name in product(GATES, VERSIONS, VALID, (*VALID, ""), names):
        presented = (VALID[owner],) if owner else ()
        is_right = bool(owner) and VALID[owner] is VALID[host] and (name is None or name.lower() == full(host))
        must = is_right and name in (None, full(host))
        label = f"{gate}, TLS {version}, {host} with the certificate of {owner or 'nobody'}, as {name!r}"
        yield _case(label, gate, host, presented, name, version, is_right, must)


def _case(label: str, gate: str, host: str, presented: tuple[Issued, ...], name: bytes | None, version: str, may: bool, must: bool) -> Case:
    async def attempt(target: Target) -> Outcome:
        there = stage(gate)
        received, was_seen = await there.ask(host, presented, server_name=name, version=version)
        return there.evaluate(received, was_seen, is_proven=may, must_forward=must)

    return Case(label, attempt)
