"""B25: can one request keep gate busy?  What each costs is gate's own processor time, so a busy machine changes nothing."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.attack.run import ACCEPTED, REFUSED, Case, Outcome, attack, expect
from tests.attack.target import Target

MAX_CONNECTIONS = 0.05  # seconds of processor time for one request
REPEATED = 8
SIZES = (1_000, 7_000, 15_000, 60_000)  # bytes; the longest are more than gate reads
SITES = ("mixed", "any", "cors", "rewrite", "authenticate")
PATHS = (
    *(b"/re/a", b"a", b"/", b"/a", b"/..", b"/.", b"/%2e", b"%2e%2e/", b"%2f", b";", b"/;a", b"%41", b"%c3%bc", b"%25", b"(a+)+", b"."),
    *(b"/re/aaaa/", b"/admin", b"/.gate/", b"/api/", b"\\", b"%5c", b"%", b"%%", b"//", b"*", b"|"),
)
QUERIES = (b"&", b"=", b"a=b&", b"gate_session=&", b"gate_session=a", b"%", b"%41", b"+", b";", b"gate_redirect_uri=https://", b"[]", b"?")
HEADERS = {
    "Cookie": (
        b"=",
        b";",
        b"; ",
        b"a=b; ",
        b"_gate=",
        b"_gate=x; ",
        b"_gate=" + b"A" * 90 + b"; ",
        b'"',
        b"\\",
        b"_gate_csrf=",
        b"a",
        b",",
    ),
    "Accept": (b"a,", b"*/*,", b"text/html;q=0.1,", b";q=", b"/", b" ", b"a/b;c=d;"),
    "Accept-Language": (b"en,", b"en-", b"en;q=0.1,", b"a-", b"-", b"*;"),
    "Accept-Encoding": (b"gzip,", b"gzip;q=0,", b";"),
    "Authorization": (b"Bearer ", b"=", b"Gate ", b"Basic ", b"~", b"a.", b"eyJ", b" "),
    "Connection": (b"a,", b"close,", b",", b" ,", b"upgrade,", b"Cookie,"),
    "Content-Type": (b";", b"a/b;", b"multipart/form-data;boundary=", b'"', b"application/grpc+"),
    "Forwarded": (b"for=1;", b",", b'for="', b";"),
    "Host": (b"a.", b"a", b"-", b"xn--", b".", b"1", b"[", b"xn--a-."),
    "Origin": (b"https://", b"a.", b"/"),
    "Sec-WebSocket-Protocol": (b"a,", b","),
    "Transfer-Encoding": (b"chunked,", b",", b" "),
    "User-Agent": (b"a", b"(", b"Mozilla/5.0 ("),
    "X-Forwarded-For": (b"1.1.1.1,", b",", b":", b"[", b"f:"),
    "X-Forwarded-Proto": (b"https,",),
    "X-Request-Id": (b"a", b"-"),
}
NAMES = (b"x-", b"-", b"_", b"x_gate_", b".", b"gate", b"xgate", b"X-Gate-Claim-")


@attack("B25", "one request that costs much", together=1)
def work(target: Target) -> Iterator[Case]:
    for size in SIZES:
        for site in SITES:
            for part in PATHS:
                yield _case(f"path of {part!r}, {size}, {site}", partial(_request, site, path=_filled(b"/", part, size, b"/private")))
            for part in QUERIES:
                yield _case(f"query of {part!r}, {size}, {site}", partial(_request, site, path=_filled(b"/?", part, size)))
        for user in (None, "alice"):
            for name, parts in HEADERS.items():
                for part in parts:
                    line = _filled(name.encode() + b": ", part, size) + b"\r\n"
                    yield _case(f"{name} of {part!r}, {size}, as {user}", partial(_request, "any", headers=line, user=user))
            for part in NAMES:
                line = _filled(b"x", part, size) + b": 1\r\n"
                yield _case(f"a name of {part!r}, {size}, as {user}", partial(_request, "any", headers=line, user=user))
    for part in NAMES:
        for count in (90, 500, 5_000):
            lines = b"".join(b"%b%d: 1\r\n" % (part.strip(b"-_.") + b"a", number) for number in range(count))
            yield _case(f"{count} headers like {part!r}", partial(_request, "any", headers=lines, user="alice"))


def _filled(beginning: bytes, part: bytes, size: int, end: bytes = b"") -> bytes:
    return beginning + part * (size // len(part)) + end


def _request(site: str, target: Target, *, path: bytes = b"/", headers: bytes = b"", user: str | None = None) -> bytes:
    host = None if not headers.startswith(b"Host: ") else headers[6:-2]
    return target.request(b"GET", path, site, user=user, headers=b"" if host else headers, host=host)


def _case(label: str, made: partial[bytes]) -> Case:
    return Case(label, partial(_costs_little, made))


async def _costs_little(made: partial[bytes], target: Target) -> Outcome:
    data, before = made(target), _spent(target)
    for _ in range(REPEATED):
        answer = await target.send(data)
    cost = (_spent(target) - before) / REPEATED
    expect(cost < MAX_CONNECTIONS, f"one request costs {cost * 1000:.0f} ms of processor time", data)
    status = answer.statuses[0] if answer.raw else 400
    expect(status not in (500, 502, 504), f"the answer is {status}", data)
    return ACCEPTED if status < 300 else REFUSED


def _spent(target: Target) -> float:
    """Seconds of the processor that gate took, all its threads."""
    return sum(int(each.read_text().split()[0]) for each in Path(f"/proc/{target.pid}/task").glob("*/schedstat")) / 1e9
