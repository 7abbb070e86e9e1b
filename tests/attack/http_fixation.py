"""B14: does anything that was in the browser before a sign-in become a session by it?"""

import re
from collections.abc import Callable, Iterator
from functools import partial

import httpx

from tests.attack.http_cookies import told
from tests.attack.run import REFUSED, Case, Outcome, attack, expect
from tests.attack.target import Target, new_marker
from tests.support.gate import AUTHENTICATE_HOST, sign_in


@attack("B14", "what was planted before a sign-in", sample=8)
def planted(target: Target) -> Iterator[Case]:
    for number in range(10):
        yield Case(f"fixation {number}", _fixation)
    for label in PLANTED:
        for person in ("bob", "alice"):
            yield Case(f"{person} signs in over {label}", partial(_planted, label, person))


async def _fixation(target: Target) -> Outcome:
    """No two sign-ins give the same session, and none takes the place of another."""
    first, second = [await target.sign_in("bob", "any") for _ in range(2)]
    expect(first["any"] != second["any"], "two sign-ins gave one cookie")
    for cookie in (first["any"], second["any"]):
        expect(await _person_of(target, cookie) == "bob@example.com", "a sign-in ended an earlier session in another browser")
    return REFUSED


# What a sibling domain may have put there before the sign-in; None: the person's own former session, which was ended.
PLANTED: dict[str, Callable[[Target], bytes] | None] = {
    "a made-up value": lambda target: b"P" * 200,
    "an empty value": lambda target: b"",
    "carol's cookie of another host": lambda target: target.cookies["carol"]["group"],
    "carol's cookie of another port": lambda target: target.cookies["carol"]["default"],
    "carol's cookie, bent": lambda target: target.cookies["carol"]["any"][:-8] + b"AAAAAAAA",
    "carol's cookie, cut": lambda target: target.cookies["carol"]["any"][:100],
    "halves of two cookies": lambda target: target.cookies["carol"]["any"][:100] + target.cookies["alice"]["any"][100:],
    "a session that was ended": None,
}


async def _planted(label: str, person: str, target: Target) -> Outcome:
    """It stays in the browser, first of its name, through a whole sign-in: that works, and the value is worth nothing afterwards."""
    make = PLANTED[label]
    value = await _ended(target, person) if make is None else make(target)

    async def plant(request: httpx.Request) -> None:
        own = request.headers.get("cookie")
        request.headers["cookie"] = f"_gate={value.decode()}" + (f"; {own}" if own else "")

    async with target.browser() as client:
        client.event_hooks["request"] = [plant]
        page = await sign_in(client, f"https://{target.host('any')}/", person)
        expect(page.status_code == 200, f"locked out with status {page.status_code}", value)
        (own,) = ((each.value or "").encode() for each in client.cookies.jar if each.name == "_gate" and each.domain == "any.localhost")
    expect(own != value and await _person_of(target, own) == f"{person}@example.com", "the sign-in gave no session of its own", own)
    expect(await _person_of(target, value) is None, "a planted value became a session", value)
    return REFUSED


async def _ended(target: Target, person: str) -> bytes:
    async with target.browser() as client:
        await sign_in(client, f"https://{target.host('any')}/", person)
        (value,) = ((each.value or "").encode() for each in client.cookies.jar if each.name == "_gate" and each.domain == "any.localhost")
        page = await client.get(target.gate.url(AUTHENTICATE_HOST, "/.gate/"), headers={"Accept": "text/html"})
        (token,) = re.findall(r'name="_gate_csrf" value="([^"]+)"', page.text)
        await client.post(target.gate.url(AUTHENTICATE_HOST, "/.gate/signout/"), data={"_gate_csrf": token})
    return value


async def _person_of(target: Target, cookie: bytes) -> str | None:
    marker = new_marker()
    await target.send(target.request(b"GET", b"/f", "any", marker=marker, headers=b"Cookie: _gate=%b\r\n" % cookie))
    hits = target.ledger.hits(marker)
    return told(hits[0])[1] if hits else None
