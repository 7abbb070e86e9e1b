"""B47: which methods does gate know, and can a header pose as one?"""

from collections.abc import Iterator
from functools import partial

from tests.attack.run import ACCEPTED, REFUSED, Case, Outcome, attack, expect
from tests.attack.target import Target, new_marker

NEVER = (
    b"TRACE",
    b"TRACK",
    b"CONNECT",
    b"trace",
    b"Connect",
    b"A" * 33,
    b"G" * 8000,
    b"GE T",
    b"G\tET",
    b"",
    b"GET\x0b",
    b"G\xc3\x89T",
    b"@GET(",
    # Applications fold a method before they run it, so each of these would differ from the method that was authorized.
    *(b"get", b"Get", b"post", b"PoSt", b"delete", b"Delete", b"dELETE", b"put", b"patch", b"options", b"head", b"propfind", b"Purge"),
)
# Any other method: forwarded as written, and authorized like any other.
PASSED = (
    b"GET",
    b"POST",
    b"PUT",
    b"PATCH",
    b"DELETE",
    b"OPTIONS",
    b"PROPFIND",
    b"PURGE",
    b"LINK",
    b"QUERY",
    b"X-YZ",
    b"PRI",
    b"A" * 32,
)
OVERRIDES = (b"X-HTTP-Method-Override", b"X-HTTP-Method", b"X-Method-Override", b"_method")
SITES = ("group", "public", "cors", "any", "redirect")


@attack("B47", "methods and their disguises")
def methods(target: Target) -> Iterator[Case]:
    for site in SITES:
        for method in NEVER:
            yield Case(f"{method[:20]!r} at {site}", partial(_never, method, site))
    for user in (None, "carol", "alice"):
        for method in PASSED:
            yield Case(f"{method!r} as {user}", partial(_passed, method, user))
            for override in OVERRIDES:
                for pretended in (b"OPTIONS", b"GET", b"HEAD", b"CONNECT"):
                    yield Case(f"{method!r} with {override!r}: {pretended!r}", partial(_overridden, method, override, pretended, user))
    for site, path in (("public", b"/x"), ("any", b"/x"), ("group", b"/x"), ("public", b"/ping"), ("mixed", b"/admin/"), ("nowhere", b"/")):
        yield Case(f"HEAD is GET without its body at {site}{path!r}", partial(_head, site, path))


async def _never(method: bytes, site: str, target: Target) -> Outcome:
    marker = new_marker()
    data = target.request(method, b"/", site, marker=marker, user="alice" if site in ("group", "any", "cors") else None)
    answer = await target.send(data)
    expect(answer.is_closed and answer.statuses in ([400], [405], [414], [501]), f"answered {answer.raw[:100]!r}", data)
    expect(not target.ledger.hits(marker), "an upstream saw it", data)
    return REFUSED


async def _passed(method: bytes, user: str | None, target: Target) -> Outcome:
    return await _evaluated(method, user, b"", target)


async def _overridden(method: bytes, override: bytes, pretended: bytes, user: str | None, target: Target) -> Outcome:
    extra = b"%b: %b\r\nOrigin: https://a.example\r\nAccess-Control-Request-Method: GET\r\n" % (override, pretended)
    return await _evaluated(method, user, extra, target, site="cors")


async def _evaluated(method: bytes, user: str | None, extra: bytes, target: Target, site: str = "group") -> Outcome:
    marker = new_marker()
    data = target.request(method, b"/m", site, marker=marker, user=user, headers=extra)
    answer = await target.send(data, methods=(method,))
    hits = target.ledger.hits(marker)
    if user == "alice" or (site == "cors" and method == b"OPTIONS"):
        expect(answer.statuses == [200] and [hit.method for hit in hits] == [method], f"{answer.raw[:100]!r}, {hits}", data)
        expect(not any(b"override" in name or b"x-http-method" in name for name, _ in hits[0].headers), "the upstream is steered", data)
        return ACCEPTED
    expect(not hits, "an upstream saw it", data)
    anonymous = 302 if method in (b"GET", b"HEAD") else 401
    expect(answer.statuses == [403 if user else anonymous], f"answered {answer.raw[:100]!r}", data)
    return REFUSED


async def _head(site: str, path: bytes, target: Target) -> Outcome:
    marker = new_marker()
    user = "alice" if site == "any" else None
    got, head = [
        await target.send(target.request(each, path, site, marker=marker, user=user), methods=(each,)) for each in (b"GET", b"HEAD")
    ]
    (one,), (other,) = got.responses, head.responses
    data = target.request(b"HEAD", path, site, marker=marker, user=user)
    expect(one.status == other.status and not other.body, f"{one.status} and {other.status}", data)
    names = [sorted(name for name, _ in each.headers if name not in (b"date",)) for each in (one, other)]
    expect(names[0] == names[1] and one.values(b"content-length") == other.values(b"content-length"), f"{names}", data)
    return ACCEPTED
