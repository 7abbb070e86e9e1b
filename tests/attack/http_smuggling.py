"""B5: does every byte belong to exactly one request, and do gate and the upstream agree to which?

The judge is a second reader (http_strict.py): what reached upstreams must be the first requests that it sees, byte for byte, and
each must have been answered.
"""

from collections.abc import Iterable, Iterator
from functools import partial

from tests.attack import http_smuggling_lines as lines
from tests.attack import http_smuggling_requests as build
from tests.attack.http_canary import MARKER
from tests.attack.http_smuggling_families import families, pauses
from tests.attack.http_smuggling_requests import Builder
from tests.attack.http_strict import strict_requests
from tests.attack.run import ACCEPTED, REFUSED, Case, Outcome, attack, expect
from tests.attack.target import Target, new_marker

BROKEN = (301, 302, 400, 401, 403, 404, 405, 408, 413, 414, 417, 426, 431, 501, 505)
# Before and after timeout_read, which is two seconds here.
PAUSES = (0.3, 1.0, 2.6)
QUIET = 0.3  # seconds without an answer, while other clients get responses: gate waits for more
SITES = (("public", None), ("group", "alice"), ("group", None))


@attack("B5", "request smuggling, classic", together=192)
def classic(target: Target) -> Iterator[Case]:
    yield from _around(lines.TRANSFER_ENCODINGS)


@attack("B5", "request smuggling, mutated Transfer-Encoding", together=192)
def mutated(target: Target) -> Iterator[Case]:
    yield from _around(lines.mutations())


def _around(doubtful: Iterable[bytes]) -> Iterator[Case]:
    for line in doubtful:
        for make in (build.cl_te, build.te_cl, build.te_only):
            for site, user in SITES:
                yield _case(f"{make.__name__} {line[:60]!r}", partial(make, line), site, user)


@attack("B5", "request smuggling, lengths and chunks", together=192)
def lengths(target: Target) -> Iterator[Case]:
    for label, make in classic_builders():
        for site, user in SITES:
            yield _case(label, make, site, user)


def classic_builders() -> Iterator[tuple[str, Builder]]:
    """Lengths, chunks and their ends, each written in every way that some reader forgave."""
    builders = [partial(build.length, b"Content-Length: " + each) for each in lines.LENGTHS]
    builders += [partial(build.length, each) for each in lines.TWO_LENGTHS] + [
        partial(build.length, name + b": %d") for name in lines.DISGUISED_LENGTHS
    ]
    builders += [partial(build.length, b"Content-Length: " + each + b"\r\nContent-Length: %d") for each in lines.LENGTHS]
    builders += [partial(build.chunk, size, b"\r\n", b"\r\n", b"") for size in lines.CHUNK_SIZES]
    builders += [partial(build.chunk, b"%x", first, second, b"") for first in lines.LINE_ENDS for second in lines.LINE_ENDS]
    builders += [partial(build.chunk, b"%x", b"\r\n", b"\r\n", each) for each in lines.TRAILERS]
    builders += [
        partial(build.last_chunk, each)
        for each in (*lines.LINE_ENDS, b"0", b"\r\n0\r\n\r\n", b"\r\n\r\n\r\n", b"\r\nX", b"00000000", b";a\r\n\r\n")
    ]
    builders += [partial(build.chunk, b"%x", b"\r\n" + bytes([byte]), b"\r\n", b"") for byte in range(256)]
    builders += [
        partial(build.chunk, b"%x", b"\r\n", bytes([byte, other]), b"")
        for byte in (0, 10, 13, 32, 48, 88)
        for other in (0, 10, 13, 32, 48, 88)
    ]
    for make in builders:
        yield f"{make.args!r}"[:80], make


@attack("B5", "request smuggling, heads and connections", together=192)
def connections(target: Target) -> Iterator[Case]:
    builders = [partial(build.odd_head, *each) for each in build.odd_heads()]
    builders += [
        partial(build.expecting, each)
        for each in (b"100-continue", b"100-Continue", b"100-continue, x", b"x", b"", b"100-continue\r\nExpect: 100-continue")
    ]
    builders += [partial(build.early, method) for method in (b"GET", b"HEAD", b"DELETE", b"OPTIONS", b"POST")]
    builders += [
        build.get_with_body,
        build.refused_with_body,
        build.unread_body,
        build.upgrade,
        build.pipelined,
        build.blank_lines,
        build.half_pipelined,
        build.connect,
    ]
    for make in builders:
        for site, user in (*SITES, ("cors", None), ("redirect", None), ("nowhere", None)):
            yield _case(_name(make), make, site, user)
    for byte in range(256):
        for make in (
            build.between,
            build.before_first,
            build.in_request_line,
            build.in_header_name,
            build.in_header_value,
            build.after_value,
            build.for_cr,
            build.for_lf,
        ):
            for site, user in SITES:
                yield _case(f"{make.__name__} {byte:#x}", partial(make, bytes([byte])), site, user)


@attack("B5", "request smuggling, published families", together=192)
def published(target: Target) -> Iterator[Case]:
    for label, make in families():
        for site, user in SITES:
            yield _case(label, make, site, user)


@attack("B5", "request smuggling, pauses before the body", together=256)
def paused(target: Target) -> Iterator[Case]:
    """A server that has answered or given up waiting must not parse the body as a request."""
    for label, make in pauses():
        for site, user in (*SITES, ("redirect", None), ("nowhere", None)):
            for pause in PAUSES:
                yield Case(f"{label} at {site} as {user}, after {pause} s", partial(_smuggle, make, site, user, pause=pause))


def _name(make: Builder) -> str:
    return f"{make.func.__name__} {make.args!r}"[:80] if isinstance(make, partial) else make.__name__


def _case(label: str, make: Builder, site: str, user: str | None) -> Case:
    return Case(f"{label} at {site} as {user}", partial(_smuggle, make, site, user))


async def _smuggle(make: Builder, site: str, user: str | None, target: Target, *, pause: float = 0.0) -> Outcome:
    first, second = new_marker(), new_marker()
    cookie = b"Cookie: %b\r\n" % target.cookie(user, site) if user else b""
    head = b"Host: %b\r\n%b" % (target.host(site).encode(), cookie)
    data = make(head + b"X-Marker: %b\r\n" % first, b"GET /smuggled HTTP/1.1\r\n%bX-Marker: %b\r\n\r\n" % (head, second))
    start, end, rest = data.partition(b"\r\n\r\n")
    writes = (start + end, rest) if pause else (data,)
    answer = await target.send(*writes, quiet=QUIET, pause=pause)
    strict = strict_requests(data)
    hits = sorted(target.ledger.hits(first) + target.ledger.hits(second), key=lambda hit: first not in hit.head)
    wanted = [(request.method, request.target.partition(b"#")[0], request.body) for request in strict]
    seen = [(hit.method, hit.target, bytes(hit.body)) for hit in hits if hit.is_complete]
    expect(
        seen == [each for each in wanted if each in seen][: len(seen)] and len(seen) <= len(wanted),
        f"upstreams saw {seen!r}, not {wanted!r}",
        data,
    )
    for hit in hits:  # unfinished ones carried a body that broke off: its beginning was right, then
        expect(hit.is_complete or len(seen) < len(hits) <= len(wanted) + 1, f"an upstream has half of {hit.head!r}", data)
        expect(len(MARKER.findall(hit.head)) == 1, "two requests in one head", data)
    methods = tuple(request.method for request in strict) or (data.partition(b" ")[0],)  # a HEAD's refusal has no body either
    answers = type(answer)(answer.raw, answer.is_closed, methods).responses
    forwarded = [response for response in answers if response.values(b"x-canary")]
    expect(len(forwarded) == len(seen), f"{len(seen)} requests reached upstreams, {len(forwarded)} answers came from there", data)
    expect(len(answers) <= len(wanted) + 1, f"{len(answers)} answers to {len(wanted)} requests", data)
    expect((site, user) not in (("group", None),) or not hits, "an upstream saw what was refused", data)
    if len(answers) > len(wanted):
        # A good head is judged before its body has come, so a sign-in or a 403 may precede the end of a broken one.
        expect(answers[-1].status in BROKEN and not answers[-1].values(b"x-canary"), f"a broken request got {answers[-1].status}", data)
    return ACCEPTED if seen else REFUSED
