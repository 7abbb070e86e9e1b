"""B14, B17, B46: whose session do planted, swapped, cut and bent cookies give?"""

import asyncio
import base64
import json
from collections.abc import Iterator
from functools import partial
from itertools import permutations, product

from tests.attack.http_stage import stage
from tests.attack.run import ACCEPTED, REFUSED, Case, Outcome, attack, expect
from tests.attack.target import SIGNED_IN_SITES, Target, new_marker

JUNK = (
    *(
        b"_gate=",
        b"_gate=junk",
        b"_gate=" + b"A" * 200,
        b"_gate=" + b"A" * 8000,
        b'_gate="quoted"',
        b"_gate_0=x",
        b"_gate_1=x",
        b"_gate_-1=x",
        b"_gate_99999=x",
    ),
    *(
        b"_GATE=x",
        b"_Gate=" + b"A" * 200,
        b"__Host-_gate=x",
        b"__Secure-_gate=x",
        b"%5fgate=x",
        b"_gat%65=x",
        b"_gate =x",
        b" _gate=x",
        b"_gate",
        b"=_gate",
        b"_gate\t=x",
    ),
    *(
        b"_gate=x=y",
        b"_gate[]=x",
        b"$Version=1; _gate=x; $Path=/",
        b"_gate=\xff\xfe",
        b"_gate=%00",
        b"_gate=null",
        b"_gate_csrf=x",
        b"_gate_signin_x=y",
        b"_gate_admin=x",
    ),
    *(
        b"; ".join([b"_gate=" + b"B" * 100] * 180),
        b"; ".join(b"_gate_%d=x" % number for number in range(180)),
        b"; ".join([b"a=b"] * 300),
        b"_gate=" + b"{" * 300,
    ),
    *(
        b"_gate=e30.e30.",
        b"_gate=eyJhbGciOiJub25lIn0.eyJlbWFpbCI6ImEifQ.",
        b"_gate=../../x",
        b"_gate=1 OR 1=1",
        b"_gate=" + b"=" * 100,
        b"_gate=-",
        b",_gate=x",
    ),
)
EMAIL = b"%b@example.com"


def received(hit) -> tuple[list[bytes], str]:
    (assertion,) = hit.values(b"x-gate-jwt-assertion")
    claims = json.loads(base64.urlsafe_b64decode(assertion.split(b".")[1] + b"=="))
    return hit.values(b"x-gate-claim-email"), claims.get("email", "")


@attack("B14", "cookie tossing, shadowing, fixation")
def tossed(target: Target) -> Iterator[Case]:
    for junk in JUNK:
        for user in ("alice", "carol", None):
            for form in ("%b; %b", "second header", "first header"):
                for order in (0, 1):
                    yield Case(f"{junk[:40]!r} with {user}'s, {form} {order}", partial(_toss, junk, user, form, order))
    for sites in permutations(SIGNED_IN_SITES, 2):
        yield Case(f"carol's cookie of {sites[0]} planted at {sites[1]}", partial(_foreign_before_own, *sites))


async def _toss(junk: bytes, user: str | None, form: str, order: int, target: Target) -> Outcome:
    marker, own = new_marker(), target.cookie(user, "any")
    parts = [part for part in ((junk, own) if order else (own, junk)) if part]
    lines = b"Cookie: %b\r\n" % b"; ".join(parts) if form == "%b; %b" else b"".join(b"Cookie: %b\r\n" % part for part in parts)
    data = target.request(b"GET", b"/t", "any", marker=marker, headers=lines)
    answer = await target.send(data)
    hits = target.ledger.hits(marker)
    if user is None:
        expect(not hits and answer.statuses[0] in (302, 400, 431), f"answered {answer.raw[:80]!r}", data)
        return REFUSED
    if answer.statuses[0] in (400, 431) and not hits:
        expect(len(junk) > 8000 or any(byte in junk for byte in b"\xff\x00"), f"locked out: {answer.raw[:300]!r}", data)
        return REFUSED
    expect(len(hits) == 1, f"locked out: {answer.raw[:300]!r}", data)
    email = EMAIL % user.encode()
    expect(received(hits[0]) == ([email], email.decode()), f"came as {received(hits[0])}", data)
    expect(not any(b"_gate=" + b"A" * 50 in value for value in hits[0].values(b"cookie")), "our cookie went upstream", data)
    return ACCEPTED


async def _foreign_before_own(elsewhere: str, site: str, target: Target) -> Outcome:
    marker = new_marker()
    line = b"Cookie: %b; %b\r\n" % (target.cookie("carol", elsewhere), target.cookie("alice", site))
    data = target.request(b"GET", b"/admin/t", site, marker=marker, headers=line)
    answer = await target.send(data)
    hits = target.ledger.hits(marker)
    expect(len(hits) == 1, f"locked out: {answer.raw[:200]!r}", data)
    expect(site == "bare" or received(hits[0])[0] == [b"alice@example.com"], "came as another user", data)
    return ACCEPTED


@attack("B14", "another user's valid session, planted next to the own session")
def tossed_sessions(target: Target) -> Iterator[Case]:
    """A sibling of the host sets a cookie of our name for the parent domain: any path, any order, any number; never its binding cookie."""
    for site, planter, user in product(("any", "bare", "group", "mixed"), ("carol", "alice"), ("carol", "alice", None)):
        if planter != user:
            for order, number in product(ORDERS, (1, 2, 60)):
                yield Case(
                    f"{planter}'s beside {user}'s at {site}, {order}, {number}", partial(_alongside, site, planter, user, order, number)
                )


ORDERS = ("before", "after", "around", "in a header before", "in a header after")


def ordered(own: bytes, planted: bytes, order: str) -> bytes:
    """The Cookie header lines."""
    around = (b"; ".join(part for part in (planted, own, planted) if part),)
    lines = {"before": (planted + b"; " + own,), "after": (own + b"; " + planted,), "around": around}
    rows = lines.get(order) or ((planted, own) if order == "in a header before" else (own, planted))
    return b"".join(b"Cookie: %b\r\n" % row.strip(b"; ") for row in rows if row.strip(b"; "))


async def _alongside(site: str, planter: str, user: str | None, order: str, number: int, target: Target) -> Outcome:
    marker, path = new_marker(), b"/admin/t"
    planted = b"; ".join([b"_gate=" + target.cookies[planter][site]] * number)
    data = target.request(b"GET", path, site, marker=marker, headers=ordered(target.cookie(user, site), planted, order))
    answer = await target.send(data)
    hits = target.ledger.hits(marker)
    if answer.statuses == [431]:
        expect(number == 60 and not hits, "a few cookies are too many", data)
        return REFUSED
    if user is None:
        expect(not hits and answer.statuses == [302], f"came in as the planter: {answer.raw[:200]!r}", data)
        return REFUSED
    may = user == "alice" or site in ("any", "bare")
    expect(bool(hits) is may and answer.statuses == [200 if may else 403], f"answered {answer.raw[:200]!r}", data)
    expect(not hits or site == "bare" or received(hits[0])[0] == [EMAIL % user.encode()], "came as the planter", data)
    return ACCEPTED if may else REFUSED


PLACES = (*SIGNED_IN_SITES, "elsewhere", "authenticate", "public", "nowhere")


@attack("B17", "a cookie of one host at every other")
def swapped(target: Target) -> Iterator[Case]:
    for origin in SIGNED_IN_SITES:
        for place in PLACES:
            for user in ("alice", "carol"):
                yield Case(f"{user}'s cookie of {origin} at {place}", partial(_swap, origin, place, user))
        for form in _other_carriers():
            yield Case(f"cookie of {origin} as {form[:30]!r}", partial(_forwarded, origin, form))


async def _swap(origin: str, place: str, user: str, target: Target) -> Outcome:
    marker = new_marker()
    data = target.request(b"GET", b"/admin/s", place, marker=marker, headers=b"Cookie: %b\r\n" % target.cookie(user, origin))
    answer = await target.send(data)
    hits = target.ledger.hits(marker)
    if place == "public":
        expect(len(hits) == 1 and not hits[0].values(b"x-gate-claim-email"), "a session of another host was taken", data)
        return REFUSED
    if place == origin:
        is_allowed = user == "alice" or place in ("any", "bare", "default")
        expect(bool(hits) is is_allowed and answer.statuses == [200 if is_allowed else 403], f"answered {answer.statuses}", data)
        return ACCEPTED if hits else REFUSED
    expect(not hits and answer.statuses[0] in (302, 404, 421), f"answered {answer.raw[:200]!r}", data)
    return REFUSED


@attack("B17", "one session's cookies at ten hosts, all pairs")
def everywhere(target: Target) -> Iterator[Case]:
    """Hosts that differ by their port, too; not by the name alone, as browsers have it."""
    home = stage()
    cookies = asyncio.run(home.cookies_of_all_places("alice"))
    for origin, place in product(cookies, cookies):
        for form in (b"Cookie: _gate=%b", b"Cookie: a=b; _gate=%b; _gate=junk", *_other_carriers()[:3]):
            value = cookies[origin] if form.startswith(b"Cookie") else cookies[origin].partition(b";")[0]
            attempt = partial(_at_another_place, value, origin == place, place, form)
            yield Case(f"the cookie of {origin} at {place} as {form!r}", attempt)
    for origin in cookies:
        yield Case(f"the cookie of {origin} at the authenticate host", partial(_at_authenticate, cookies[origin]))


async def _at_another_place(cookie: bytes, is_its_own: bool, place: str, form: bytes, _: Target) -> Outcome:
    target, marker = stage(), new_marker()
    data = target.request(b"GET", b"/s", "", host=place.encode(), marker=marker, headers=form % cookie + b"\r\n")
    answer = await target.send(data)
    hits = target.ledger.hits(marker)
    if is_its_own and form.startswith(b"Cookie"):
        expect(len(hits) == 1 and answer.statuses == [200], f"answered {answer.raw[:200]!r}", data)
        return ACCEPTED
    expect(not hits and answer.statuses[0] in (302, 401), f"answered {answer.raw[:200]!r}", data)
    return REFUSED


async def _at_authenticate(cookie: bytes, _: Target) -> Outcome:
    target = stage()
    for path in (b"/.gate/", b"/.gate/admin/", b"/.gate/admin/databroker/session/"):
        data = target.request(b"GET", path, "authenticate", headers=b"Accept: text/html\r\nCookie: _gate=%b\r\n" % cookie)
        answer = await target.send(data)
        expect(answer.statuses[0] in (302, 401) and b"alice" not in answer.raw, f"answered {answer.raw[:300]!r}", data)
    return REFUSED


def _other_carriers() -> list[bytes]:
    """Other places for a token of another host: %b is the token."""
    return [
        b"Authorization: Gate %b",
        b"Authorization: Bearer Gate-%b",
        b"Authorization: Bearer %b",
        b"X-Gate-Authorization: %b",
        b"Cookie: _gate_0=%b",
    ]


async def _forwarded(origin: str, form: bytes, target: Target) -> Outcome:
    marker, place = new_marker(), "group" if origin != "group" else "any"
    data = target.request(b"GET", b"/s", place, marker=marker, headers=form % target.cookies["alice"][origin] + b"\r\n")
    answer = await target.send(data)
    expect(not target.ledger.hits(marker) and answer.statuses[0] in (302, 401), f"answered {answer.raw[:200]!r}", data)
    return REFUSED


@attack("B46", "sealed cookies, bent and cut")
def bent(target: Target) -> Iterator[Case]:
    value = target.cookies["alice"]["any"]
    alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    for position in range(len(value)):
        for bit in range(6):
            changed = alphabet[alphabet.index(value[position : position + 1]) ^ (1 << bit)]
            yield _sealed(f"bit {bit} of letter {position}", value[:position] + bytes([changed]) + value[position + 1 :], value)
        yield _sealed(f"cut at {position}", value[:position], value)
        yield _sealed(f"from {position}", value[position + 1 :], value)
        for odd in (b" ", b"%00", b"=", b"/", b"+", b".", b"\xff"):
            yield _sealed(f"{odd!r} at {position}", value[:position] + odd + value[position:], value)
    other = target.cookies["carol"]["any"]
    for position in range(0, min(len(value), len(other)), 3):
        yield _sealed(f"spliced at {position}", value[:position] + other[position:], value)


def _sealed(label: str, changed: bytes, value: bytes) -> Case:
    return Case(label, partial(_open_bent, changed, value))


async def _open_bent(changed: bytes, value: bytes, target: Target) -> Outcome:
    if _bytes_of(changed.strip(b" ")) == _bytes_of(value) or changed == target.cookies["carol"]["any"]:
        return ACCEPTED  # blanks around it, spare bits of its last letter: the same sealed bytes in another spelling
    marker = new_marker()
    line = b"Cookie: _gate=%b; __Host-_gate=%b\r\n" % (changed, target.bindings[value])
    data = target.request(b"GET", b"/b", "any", marker=marker, headers=line)
    answer = await target.send(data)
    expect(not target.ledger.hits(marker) and answer.statuses[0] in (302, 400), f"answered {answer.raw[:200]!r}", data)
    return REFUSED


def _bytes_of(value: bytes) -> bytes | None:
    try:
        return base64.b64decode(value + b"=" * (-len(value) % 4), altchars=b"-_", validate=True)
    except ValueError:
        return None
