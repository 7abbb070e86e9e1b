"""B45: what passes as a preflight, and what goes upstream with it?"""

from collections.abc import Iterator
from functools import partial

from tests.attack.run import ACCEPTED, REFUSED, Case, Outcome, attack, expect
from tests.attack.target import Target, new_marker

METHODS = (
    b"OPTIONS",
    b"options",
    b"Options",
    b"GET",
    b"HEAD",
    b"POST",
    b"PUT",
    b"DELETE",
    b"PATCH",
    b"OPTIONSX",
    b"XOPTIONS",
    b"PROPFIND",
    b"OPT%49ONS",
)
ORIGINS = (
    b"Origin: https://a.example\r\n",
    b"Origin: null\r\n",
    b"origin: x\r\n",
    b"Origin:\r\n",
    b"Origin: \r\n",
    b"",
    b"Origin_: x\r\n",
    b"X-Origin: x\r\n",
)
REQUESTED = (
    *(b"Access-Control-Request-Method: POST\r\n", b"Access-Control-Request-Method:\r\n", b"", b"Access_Control_Request_Method: POST\r\n"),
    *(b"Access-Control-Request-Headers: x\r\n", b"access-control-request-method: GET\r\n"),
)
EXTRAS = (
    *(
        b"",
        b"X-HTTP-Method-Override: GET\r\n",
        b"X-HTTP-Method: DELETE\r\n",
        b"X-Method-Override: POST\r\n",
        b"Cookie: mine=1\r\n",
        b"Authorization: Basic YTpi\r\n",
    ),
    *(
        b"Cookie: _gate=junk\r\nAuthorization: Bearer x\r\n",
        b"Content-Length: 4\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"X-Gate-Claim-Email: alice@example.com\r\n",
    ),
)
BODIES = {b"Content-Length: 4\r\n": b"body", b"Transfer-Encoding: chunked\r\n": b"4\r\nbody\r\n0\r\n\r\n"}
SITES = (("cors", None), ("cors", "carol"), ("cors", "alice"), ("group", None), ("group", "carol"))


@attack("B45", "preflight as a way in")
def preflights(target: Target) -> Iterator[Case]:
    for method in METHODS:
        for origin in ORIGINS:
            for requested in REQUESTED:
                for extra in EXTRAS:
                    for site, user in SITES:
                        yield Case(
                            f"{method!r} {origin!r} {requested!r} {extra!r}",
                            partial(_preflight, method, origin + requested, extra, site, user),
                        )


@attack("B45", "what goes with a preflight")
def real_preflights(target: Target) -> Iterator[Case]:
    for origin in ORIGINS[:3]:
        for requested in (REQUESTED[0], REQUESTED[-1]):
            for extra in EXTRAS:
                for site, user in SITES:
                    yield Case(
                        f"{origin!r} {requested!r} {extra!r} as {user}",
                        partial(_preflight, b"OPTIONS", origin + requested, extra, site, user),
                    )


async def _preflight(method: bytes, headers: bytes, extra: bytes, site: str, user: str | None, target: Target) -> Outcome:
    marker = new_marker()
    data = target.request(method, b"/p", site, user=user, marker=marker, headers=headers + extra) + BODIES.get(extra, b"")
    answer = await target.send(data, methods=(method,))
    hits = target.ledger.hits(marker)
    is_preflight = (
        site == "cors" and method == b"OPTIONS" and _has_value(headers, b"origin") and _has_value(headers, b"access-control-request-method")
    )
    if user == "alice":
        expect(len(hits) == (1 if answer.statuses == [200] else 0), f"answered {answer.raw[:100]!r}", data)
    elif not is_preflight:
        expect(not hits and answer.statuses[0] in (302, 400, 401, 403), f"{method!r} came through: {answer.raw[:100]!r}", data)
        return REFUSED
    for hit in hits if user != "alice" or is_preflight else ():
        expect(hit.method == b"OPTIONS", f"an upstream saw {hit.method!r}", data)
        credentials = hit.values(b"cookie") + hit.values(b"authorization") + hit.values(b"x-gate-claim-email")
        if user != "alice":
            expect(not credentials, f"credentials went with the preflight: {credentials!r}", data)
    return ACCEPTED if hits else REFUSED


def _has_value(headers: bytes, name: bytes) -> bool:
    return any(line.lower().partition(b":")[0] == name and line.partition(b":")[2].strip() for line in headers.split(b"\r\n"))
