"""B3: do gate's own credentials end at gate, and everybody else's survive?"""

import re
from collections.abc import Iterator
from functools import partial

from tests.attack.run import ACCEPTED, REFUSED, Case, Outcome, attack, expect
from tests.attack.target import Target, new_marker

CREDENTIALS = (
    b"Gate abc",
    b"gate abc",
    b"GATE  abc",
    b"Gate\tabc",
    b"Bearer Gate-abc",
    b"bearer gate-abc",
    b"BEARER  Gate-abc",
    b" Gate abc",
)
OTHER_CREDENTIALS = (b"Bearer abc", b"Basic YTpi", b"Gateau abc", b"Bearer abc.Gate-x", b"Digest gate=1")


@attack("B3", "credentials of gate stay, others pass")
def credentials(target: Target) -> Iterator[Case]:
    for value in (*CREDENTIALS, *OTHER_CREDENTIALS):
        for site, user in (("public", None), ("any", "alice"), ("bare", "carol"), ("mixed", "alice")):
            yield Case(f"Authorization: {value!r} at {site}", partial(_credential, value, site, user))
    for jar in _jars():
        for site, user in (("any", "alice"), ("bare", "carol"), ("mixed", "alice")):
            yield Case(f"Cookie {jar!r}", partial(_cookies, jar, site, user))


async def _credential(value: bytes, site: str, user: str | None, target: Target) -> Outcome:
    marker = new_marker()
    data = target.request(b"GET", b"/c", site, user=user, marker=marker, headers=b"Authorization: %b\r\n" % value)
    answer = await target.send(data)
    hits = target.ledger.hits(marker)
    is_other = value in OTHER_CREDENTIALS
    for hit in hits:
        found = hit.values(b"authorization")
        expect(found == ([value] if is_other else []), f"an upstream saw {found!r}", data)
    expect(hits or not is_other, f"not forwarded: {answer.raw[:200]!r}", data)
    return ACCEPTED if hits else REFUSED


def _jars() -> Iterator[tuple[bytes, bytes]]:
    """(text before gate's cookie, text after it); {} is gate's part and must vanish, the rest must survive."""
    others = (
        b"",
        b"a=1",
        b"a=1; b=2",
        b"a",
        b"=x",
        b'q="a b"',
        b"gate=1",
        b"my_gate=1",
        b"x=_gate=1",
        b"a=1;b=2",
        b"a=1;  b=2",
        b"\xff=\xfe",
        b"a=b=c",
    )
    from_gate = (
        b"",
        b"_gate_0=x",
        b"_gate_1=x",
        b"__Host-_gate=x",
        b"__Host-_gate_csrf=x",
        b"__Host-_gate_signin_abc=x",
        b"__host-_GATE_admin=x",
        b"_gate_csrf=x",
        b"_gate_signin_abc=x",
        b"_gate_admin=x",
        b"_gate_admin_csrf=x",
        b"_gate=junk",
        b"_gate=",
    )
    for before in others:
        for behind in from_gate:
            yield before, behind
            yield behind, before


async def _cookies(jar: tuple[bytes, bytes], site: str, user: str, target: Target) -> Outcome:
    marker = new_marker()
    line = b"; ".join(part for part in (jar[0], target.cookie(user, site), jar[1]) if part)
    data = target.request(b"GET", b"/c", site, marker=marker, headers=b"Cookie: %b\r\n" % line)
    await target.send(data)
    (hit,) = target.ledger.hits(marker)
    found = b"; ".join(hit.values(b"cookie"))
    expect(b"_gate_" not in found and target.cookies[user][site] not in found, f"an upstream saw {found!r}", data)
    expect(not re.search(rb"(^|; ?)(__Host-)?_gate=", found), f"an upstream saw {found!r}", data)
    for part in jar:
        expect(part.lower().removeprefix(b"__host-").startswith(b"_gate") or part in found, f"{part!r} did not survive: {found!r}", data)
    return ACCEPTED
