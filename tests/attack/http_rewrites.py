"""B48: does a rewritten path stay below its place, and a redirect on its host?"""

import re
from collections.abc import Iterator
from functools import partial
from itertools import product
from urllib.parse import unquote_to_bytes, urlsplit

from tests.attack.http_paths import SPELLINGS
from tests.attack.run import ACCEPTED, REFUSED, Case, Outcome, attack, expect
from tests.attack.target import Target, new_marker

TAILS = (
    *(
        b"",
        b"x",
        b"evil.example/",
        b"@evil.example/",
        b"//evil.example/",
        b"\\1",
        b"$1",
        b"\\0",
        b"${x}",
        b"%5c1",
        b"%0d%0aX:1",
        b"%0d%0a%0d%0a",
        b"%2e%2e/%2e%2e/",
    ),
    *(
        b"..",
        b"../x",
        b"..%2fx",
        b"%2e%2e%2fx",
        b"..;/x",
        b"..;a=b/x",
        b"%2f%2fevil.example",
        b"/evil.example/..",
        b":80/",
        b"?x=//evil.example",
        b"?",
        b"??",
        b"?\\1",
    ),
    *(
        b"?%0d%0aX:1",
        b"%09//evil.example",
        b"https://evil.example/",
        b"/https://evil.example/",
        b"https:evil.example",
        b"javascript:alert(1)",
        b"%00",
        b"%ff",
        b"%c0%ae",
    ),
)
PLACES = (("rewrite", b"/api/", b"/base/"), ("rewrite", b"/to/", b"/deep/to/"))
REDIRECTS = (
    (b"/host/", "landed.localhost", "/host/"),
    (b"/prefix/", "redirect.localhost", "/new/"),
    (b"/other/", "redirect.localhost", "/fixed"),
)


@attack("B48", "rewrites and redirect routes")
def rewrites(target: Target) -> Iterator[Case]:
    for first, tail in product(SPELLINGS, TAILS):
        for site, prefix, base in PLACES:
            for path in (prefix + first + tail, prefix[:-1] + first + tail, b"/" + first + prefix[1:] + tail):
                yield Case(f"{path!r}"[:80], partial(_rewritten, site, path, base))
        for prefix, host, place in REDIRECTS:
            yield Case(f"redirect {prefix + first + tail!r}"[:80], partial(_redirected, prefix, prefix + first + tail, host, place))


@attack("B48", "rewrites that cut within a segment")
def cuts(target: Target) -> Iterator[Case]:
    """`/cut` becomes `/base/`, so what follows it in its segment becomes a separate segment: `/cut../x`."""
    for first, tail in product(SPELLINGS, (b"", b"x", b"/x", b"/../x", b"/..;/x")):
        yield Case(f"{first + tail!r} behind /cut"[:80], partial(_rewritten, "rewrite", b"/cut" + first + tail, b"/base/"))


async def _rewritten(site: str, path: bytes, base: bytes, target: Target) -> Outcome:
    marker = new_marker()
    data = target.request(b"GET", path, site, marker=marker)
    answer = await target.send(data)
    hits = target.ledger.hits(marker)
    expect(len(answer.responses) == 1 and len(hits) <= 1, f"{len(hits)} requests reached upstreams", data)
    for hit in hits:
        for reading in _climbs(hit.target.partition(b"?")[0]):
            expect(reading.startswith((b"/base/", b"/deep/")), f"{hit.target!r} may be read as {reading!r}", data)
        expect(not hit.values(b"x"), "a header was injected", data)
    expect(hits or answer.statuses[0] in (302, 400, 404), f"answered {answer.raw[:100]!r}", data)
    return ACCEPTED if hits else REFUSED


def _climbs(path: bytes) -> set[bytes]:
    """The path with its dots resolved, as it is, decoded, without parameters, and both."""
    plain = re.sub(rb";[^/]*", b"", path)
    return {
        _resolved(each)
        for each in (path, plain, unquote_to_bytes(path), unquote_to_bytes(plain), re.sub(rb";[^/]*", b"", unquote_to_bytes(path)))
    }


def _resolved(path: bytes) -> bytes:
    stored: list[bytes] = []
    for segment in path.replace(b"\\", b"/").split(b"/")[1:]:
        if segment == b"..":
            del stored[-1:]
        elif segment != b".":
            stored.append(segment)
    return b"/" + b"/".join(stored)


async def _redirected(prefix: bytes, path: bytes, host: str, place: str, target: Target) -> Outcome:
    marker = new_marker()
    data = target.request(b"GET", path, "redirect", marker=marker)
    answer = await target.send(data)
    expect(len(answer.responses) == 1 and not target.ledger.hits(marker), f"{len(answer.responses)} answers", data)
    (response,) = answer.responses
    if response.status in (400, 404):
        return REFUSED
    locations = response.values(b"location")
    expect(response.status in (301, 302, 303, 307, 308) and len(locations) == 1, f"answered {response.status} {locations}", data)
    text = locations[0].decode("ascii")
    expect(re.fullmatch(r"[!#$%&'()*+,./0-9:;=?@A-Z_a-z~\[\]-]+", text), f"Location is {text!r}", data)
    landed = urlsplit(text)
    allowed = {host, "landed.localhost", "redirect.localhost", "authenticate.localhost"}
    expect(landed.scheme == "https" and landed.hostname in allowed and "@" not in landed.netloc, f"Location is {text!r}", data)
    expect(not response.values(b"x"), "a header was injected", data)
    return ACCEPTED
