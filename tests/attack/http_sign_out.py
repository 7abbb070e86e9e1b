"""B16: after sign-out has returned, is every copy of the session refused at once?"""

import re
from collections.abc import Iterator
from functools import partial

from tests.attack.run import REFUSED, Case, Outcome, attack, expect
from tests.attack.target import Target, new_marker
from tests.support.cookies import gate_values
from tests.support.gate import HTML, follow, sign_in

SITES = ("any", "bare", "default")
TIMES = 24


@attack("B16", "replay after sign-out", together=4, sample=3)
def replayed(target: Target) -> Iterator[Case]:
    for number in range(TIMES):
        yield Case(f"sign-out {number}", partial(_replay, ("bob", "alice", "carol")[number % 3]))


async def _replay(user: str, target: Target) -> Outcome:
    async with target.browser() as client:
        await sign_in(client, f"https://{target.host(SITES[0])}/", user)
        for site in SITES[1:]:
            await follow(client, await client.get(f"https://{target.host(site)}/", headers=HTML))
        copies = {site: gate_values(client, target.host(site).partition(":")[0]) for site in SITES}
        for site in SITES:
            expect(await _reaches(target, site, copies[site]), f"the session at {site} was none to begin with")
        home = target.gate.url("authenticate.localhost", "/.gate/")
        (token,) = re.findall(r'name="_gate_csrf" value="([^"]+)"', (await client.get(home, headers=HTML)).text)
        answer = await client.post(target.gate.url("authenticate.localhost", "/.gate/signout/"), data={"_gate_csrf": token})
        expect(answer.status_code in (200, 302, 303), f"sign-out answered {answer.status_code}")
    for site in SITES:
        expect(not await _reaches(target, site, copies[site]), f"a copy of the session lives on at {site}")
    expect(_takes_its_cookie_away(answer.headers.get_list("set-cookie")), "the authenticate host's cookie stays")
    return REFUSED


async def _reaches(target: Target, site: str, cookie: bytes) -> bool:
    marker = new_marker()
    await target.send(target.request(b"GET", b"/r", site, marker=marker, headers=b"Cookie: _gate=%b\r\n" % cookie))
    return bool(target.ledger.hits(marker))


def _takes_its_cookie_away(cookies: list[str]) -> bool:
    gone = [each.lower() for each in cookies if each.startswith("_gate=")]
    return any(
        ("max-age=0" in each or "1970" in each) and "secure" in each and "path=/" in each and "samesite=lax" in each for each in gone
    )
