"""B29: behind a real nginx that caches by URL alone, does anybody ever get an answer that was another's?"""

import atexit
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache, partial
from itertools import product
from pathlib import Path

from tests.attack.http_neighbours import Server, nginx
from tests.attack.http_stage import Stage, stage
from tests.attack.run import ACCEPTED, REFUSED, Case, Outcome, attack, expect
from tests.attack.target import Answer, Target, new_marker

# Honest: keeps what says that it may be kept.  Careless: keeps for a minute whatever does not forbid it.
_CACHED = " proxy_cache pages; proxy_cache_key $http_host$request_uri; add_header X-Cache $upstream_cache_status always;"
CACHES = {"honest": _CACHED, "careless": _CACHED + " proxy_cache_valid any 1m;"}
# The stage's upstreams say nothing of caching; with this last part of a path, that their answer is one person's.
PRIVATE = b"/private"
SUFFIXES = (
    *(b"", b"/x.css", b"/x.js", b"/x.png", b"/x.ico", b"/x.svg", b"/x.woff2", b"/x.html", b";x.css", b"%2Fx.css", b"%3Bx.css", b"%3Fx.css"),
    *(b"?x.css", b"?v=1", b"%00.css", b"%0A.css", b"%23x.css", b"/..%2Fx.css", b"/%2e%2e/x.css", b".css", b"/.css", b"/x.CSS", b"~x.css"),
    *(b"/x.css/", b"/x.css?y=z", b"/x.css;y", b"%20x.css", b"!x.css", b"/static/x.css", b"/favicon.ico", b"/robots.txt", b"/assets/a.js"),
)
PAGES = (b"/account", b"/api/me", b"/.gate/jwt", b"/.gate/", b"/.gate/callback/", b"/.gate/signout/", b"/oauth2/callback", b"/")
SITES = ("any", "group", "bare")
OUR_PAGES = (b"/.gate/", b"/.gate/admin/", b"/.gate/admin/databroker/session/", b"/.gate/signout/", b"/.gate/sign_in", b"/oauth2/callback")
PEOPLE = ("alice", "carol", None, "carol", "alice")


@cache
def _caches() -> dict[str, int]:
    """The ports of the caches, which are started when they are first asked for and kept to the end."""
    stack = ExitStack()
    atexit.register(stack.close)
    home = stage()
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gate-attack-")))
    ports = stack.enter_context(nginx(directory / "nginx", *(Server(home.port, more) for more in CACHES.values())))
    return dict(zip(CACHES, ports, strict=True))


@attack("B29", "two users and an anonymous client behind a caching nginx", together=8, sample=100, minutes=0.5)
def behind_a_cache(target: Target) -> Iterator[Case]:
    home, ports = stage(), _caches()
    for (kind, port), site, page, suffix in product(ports.items(), SITES, PAGES, SUFFIXES):
        is_gate_s = page.startswith(b"/.gate")
        if kind == "honest" or is_gate_s:
            yield Case(f"{page + suffix!r} at {site}, {kind}", partial(_in_turn, home, port, site, page + suffix))
        else:
            path = page + suffix.partition(b"?")[0] + PRIVATE
            yield Case(f"{path!r} at {site}, {kind}", partial(_in_turn, home, port, site, path))
    for port, page, suffix in product(ports.values(), OUR_PAGES, SUFFIXES):
        yield Case(f"our {page + suffix!r}", partial(_our_page, home, port, page + suffix))


async def _in_turn(home: Stage, port: int, site: str, path: bytes, _: Target) -> Outcome:
    """Each requests the same URL, which was not requested before."""
    if path.startswith(b"/.gate"):
        path += (b"&" if b"?" in path else b"?") + new_marker()
    else:
        path = b"/" + new_marker() + path
    found = []
    for user in PEOPLE:
        answer = await _ask(home, port, home.request(b"GET", path, site, user=user, headers=b"Accept: text/html\r\n"))
        _is_own(answer, user, path)
        found.append(answer.statuses[0])
    expect(site != "group" or 200 not in (found[1], found[3]) or path.startswith(b"/.gate"), f"carol was let in: {found}", path)
    return ACCEPTED if 200 in found else REFUSED


def _is_own(answer: Answer, user: str | None, path: bytes) -> None:
    (response,) = answer.responses
    others = {b"alice", b"carol"} - {(user or "").encode()}
    expect(not any(other + b"@example.com" in answer.raw for other in others), f"{user} got {answer.raw[:600]!r}", path)
    is_anonymous = b"x-canary" not in answer.raw.lower()
    expect(user or is_anonymous, f"nobody got {answer.raw[:300]!r}", path)
    expect(response.values(b"x-cache") != [b"HIT"], f"{user} got what was kept: {answer.raw[:600]!r}", path)


async def _our_page(home: Stage, port: int, path: bytes, _: Target) -> Outcome:
    path += (b"&" if b"?" in path else b"?") + new_marker()
    cookies = "; ".join(f"{each.name}={each.value}" for each in home.admin_jar.jar if each.domain.startswith("authenticate"))
    answers = []
    for cookie in (f"Cookie: {cookies}\r\n".encode(), b"", f"Cookie: {cookies}\r\n".encode()):
        answers.append(await _ask(home, port, home.request(b"GET", path, "authenticate", headers=b"Accept: text/html\r\n" + cookie)))
    expect(b"alice" not in answers[1].raw, f"nobody got {answers[1].raw[:600]!r}", path)
    for answer in answers:
        expect(answer.responses[0].values(b"x-cache") != [b"HIT"], f"kept: {answer.raw[:600]!r}", path)
    return ACCEPTED if b"alice" in answers[0].raw else REFUSED


async def _ask(home: Stage, port: int, data: bytes) -> Answer:
    door = Target(home.gate, home.canaries, home.ledger, None)
    door.port = port
    return await door.send(data)
