"""B14: does anything that was in the browser before a sign-in become a session by it?"""

from collections.abc import Callable, Iterator
from functools import partial

import httpx

from tests.attack.http_cookies import ORDERS, received
from tests.attack.run import REFUSED, Case, Outcome, attack, expect
from tests.attack.target import Target, new_marker
from tests.support.cookies import gate_values
from tests.support.development_provider import pick_user
from tests.support.gate import AUTHENTICATE_HOST, HTML, follow, sign_in, sign_out


# Of one client network twenty may wait for the provider; further clients get a request to try again.
@attack("B14", "what was planted before a sign-in", sample=8, together=8)
def planted(target: Target) -> Iterator[Case]:
    for number in range(10):
        yield Case(f"fixation {number}", _fixation)
    for label in PLANTED:
        for user in ("bob", "alice"):
            yield Case(f"{user} signs in over {label}", partial(_planted, label, user))


async def _fixation(target: Target) -> Outcome:
    """No two sign-ins give the same session, and none takes the place of another."""
    first, second = [await target.sign_in("bob", "any") for _ in range(2)]
    expect(first["any"] != second["any"], "two sign-ins gave one cookie")
    for cookie in (first["any"], second["any"]):
        expect(
            await _user_of_cookie(target, target.whole(cookie).removeprefix(b"_gate=")) == "bob@example.com",
            "a sign-in ended an earlier session in another browser",
        )
    return REFUSED


# Cookies that a sibling domain may have set before the sign-in; None: the user's former session, which was ended.
PLANTED: dict[str, Callable[[Target], bytes] | None] = {
    "a made-up value": lambda target: b"P" * 200,
    "an empty value": lambda target: b"",
    "carol's cookie of another host": lambda target: target.cookies["carol"]["group"],
    "carol's cookie of another port": lambda target: target.cookies["carol"]["default"],
    "carol's cookie, bent": lambda target: target.cookies["carol"]["any"][:-8] + b"AAAAAAAA",
    "carol's cookie, cut": lambda target: target.cookies["carol"]["any"][:100],
    "halves of two cookies": lambda target: target.cookies["carol"]["any"][:100] + target.cookies["alice"]["any"][100:],
    "carol's good cookie": lambda target: target.cookies["carol"]["any"],
    "a session that was ended": None,
}


async def _planted(label: str, user: str, target: Target) -> Outcome:
    """It stays in the browser, first of its name, through a whole sign-in: that works, and the value is worth nothing afterwards."""
    make = PLANTED[label]
    value = await _ended(target, user) if make is None else make(target)

    async def plant(request: httpx.Request) -> None:
        own = request.headers.get("cookie")
        request.headers["cookie"] = f"_gate={value.decode()}" + (f"; {own}" if own else "")

    async with target.browser() as client:
        client.event_hooks["request"] = [plant]
        page = await sign_in(client, f"https://{target.host('any')}/", user)
        expect(page.status_code == 200, f"locked out with status {page.status_code}", value)
        own = gate_values(client, "any.localhost")
    expect(own != value and await _user_of_cookie(target, own) == f"{user}@example.com", "the sign-in created no new session", own)
    expect(await _user_of_cookie(target, value) is None, "a planted value became a session", value)
    return REFUSED


async def _ended(target: Target, user: str) -> bytes:
    async with target.browser() as client:
        await sign_in(client, f"https://{target.host('any')}/", user)
        value = gate_values(client, "any.localhost")
        await _sign_out(client, target)
    return value


async def _sign_out(client: httpx.AsyncClient, target: Target) -> httpx.Response:
    return await sign_out(client, target.gate)


async def _user_of_cookie(target: Target, cookie: bytes, site: str = "any") -> str | None:
    marker = new_marker()
    await target.send(target.request(b"GET", b"/f", site, marker=marker, headers=b"Cookie: _gate=%b\r\n" % cookie))
    hits = target.ledger.hits(marker)
    return received(hits[0])[1] if hits else None


@attack("B14", "another user's valid session, planted during sign-in and sign-out", sample=6)
def planted_sessions(target: Target) -> Iterator[Case]:
    for order in ORDERS[:3]:
        for does in (_signs_in_alongside, _signs_out_alongside):
            yield Case(f"{does.__name__.strip('_')}, {order}", partial(does, order))


async def _signs_in_alongside(order: str, target: Target) -> Outcome:
    """At every host that the way leads over, the authenticate host included, the planter's own good session is there, too."""
    async with target.browser() as mallory, target.browser() as client:
        attacker_value = await _everywhere(mallory, target, "carol")
        client.event_hooks["request"] = [partial(_plant, attacker_value, order)]
        page = await sign_in(client, f"https://{target.host('any')}/", "alice")
        expect(page.status_code == 200, f"locked out with status {page.status_code}")
        page = await follow(client, await client.get(f"https://{target.host('group')}/", headers=HTML))
        expect(page.status_code == 200, f"locked out of the next host with status {page.status_code}")
        for host, user in (("any.localhost", "alice"), ("group.localhost", "alice")):
            email = await _user_of_cookie(target, gate_values(client, host), host.partition(".")[0])
            expect(email == f"{user}@example.com", f"{email} at {host}")
        presented = await client.get(target.gate.url(AUTHENTICATE_HOST, "/.gate/"), headers={"Accept": "application/json"})
        expect(presented.json()["user"]["email"] == "alice@example.com", f"the page of another user: {presented.text[:300]}")
    return REFUSED


async def _signs_out_alongside(order: str, target: Target) -> Outcome:
    async with target.browser() as mallory, target.browser() as client:
        attacker_value = await _everywhere(mallory, target, "carol")
        await sign_in(client, f"https://{target.host('any')}/", "alice")
        own = gate_values(client, "any.localhost")
        client.event_hooks["request"] = [partial(_plant, attacker_value, order)]
        answer = await _sign_out(client, target)
        expect(answer.status_code in (200, 302, 303), f"sign-out answered {answer.status_code}")
        expect(await _user_of_cookie(target, own) is None, "the person's own session lives on")
        expect(await _user_of_cookie(target, gate_values(mallory, "any.localhost")) is None, "the planted session lives on")
        gone = [line for line in answer.headers.get_list("set-cookie") if line.startswith(("_gate=;", "__Host-_gate=;", '_gate=""'))]
        expect(len(gone) > 2 and all("Max-Age=0" in line for line in gone), f"cookies stay: {gone}")
    return REFUSED


@attack("B14", "another user's sign-in, completed", sample=12)
def planted_attempts(target: Target) -> Iterator[Case]:
    """The planter begins, plants the cookie of the attempt in the victim's browser, and leads it to their own callback."""
    for callback in ("the provider's", "the route's"):
        for name in PLANTABLE:
            yield Case(f"{callback} callback, as {name % 'ID'}", partial(_attempt_planted, callback, name))


# Names that a sibling of a host can set a cookie of; browsers keep the exact prefix for the host itself, some in any case.
PLANTABLE = (
    "_gate_signin_%s",
    "__host-_gate_signin_%s",
    "__Secure-_gate_signin_%s",
    "=__Host-_gate_signin_%s",
    "__HOST-_gate_signin_%s",
    " _gate_signin_%s",
)


async def _attempt_planted(callback: str, name: str, target: Target) -> Outcome:
    async with target.browser() as mallory, target.browser() as victim:
        page = await follow(mallory, await mallory.get(f"https://{target.host('any')}/", headers=HTML))
        picked = await pick_user(mallory, page, "carol")
        if callback == "the route's":
            picked = await mallory.send(_next(picked))
        url = str(_next(picked).url)
        planted = "; ".join(
            f"{name % each.name.partition('_signin_')[2]}={each.value}" for each in mallory.cookies.jar if "_signin_" in each.name
        )
        expect(planted != "", "there was no attempt to plant")
        answer = await victim.get(url, headers={**HTML, "Cookie": f"a=b; {planted}"})
        expect(answer.status_code == 400, f"answered {answer.status_code}")
        expect(not any("_gate=" in line for line in answer.headers.get_list("set-cookie")), "signed in as the planter")
        answer = await mallory.get(url, headers=HTML)
        expect(answer.status_code == 302, f"the planter's own browser is refused: {answer.status_code}")
    return REFUSED


def _next(response: httpx.Response) -> httpx.Request:
    expect(response.next_request is not None, f"answered {response.status_code} where a redirect was expected")
    assert response.next_request is not None
    return response.next_request


async def _everywhere(client: httpx.AsyncClient, target: Target, user: str) -> dict[str, str]:
    """The value of this person's session cookie, by host."""
    await sign_in(client, f"https://{target.host('any')}/", user)
    await follow(client, await client.get(f"https://{target.host('group')}/", headers=HTML))
    return {each.domain: each.value or "" for each in client.cookies.jar if each.name == "_gate"}


async def _plant(values: dict[str, str], order: str, request: httpx.Request) -> None:
    if (value := values.get(request.url.host)) is None:
        return
    own, planted = request.headers.get("cookie", ""), f"_gate={value}"
    rows = {"before": (planted, own), "after": (own, planted), "around": (planted, own, planted)}
    request.headers["cookie"] = "; ".join(row for row in rows[order] if row)
