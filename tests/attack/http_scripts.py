"""B50: does text of every script pass in header values both ways, and no control character with it?"""

from collections.abc import Iterator
from functools import partial

from tests.attack.http_canary import Script
from tests.attack.run import ACCEPTED, REFUSED, Case, Outcome, attack, expect
from tests.attack.target import Target, new_marker

TEXTS = tuple(
    text.encode()
    for text in (
        *("Åsa", "Årjäng", "São Paulo", "Архангельск", "Пермь", "内", "東京都", "서울", "ไทย", "हिन्दी", "العربية", "עברית", "Ελλάδα"),
        *("😅", "👩‍👩‍👧", "…", "“x”", "€", "\u00a0", "\u2028", "\ufeff", "\uffff", "\U0010ffff", "ÅåÅå" * 500),
    )
)
LATIN_1 = (b"\xe9", b"caf\xe9", b"\xa0\xff", b"\xc3", b"\xff\xfe", b"\xe9\xc3\x85")
CONTROLS = (
    *(bytes([byte]) for byte in range(0x80, 0xA0)),
    *(bytes([0xC2, byte]) for byte in (0x80, 0x85, 0x9B, 0x9F)),
    *(b"\xc1\x85", b"\xc0\x8a", b"\xe0\x82\x85", b"\xe5\x85", b"\xf0\x9f\x98", b"\xf0\x8f\x98\x85", b"\xed\xa0\x85", b"\xf4\x90\x85\x85"),
    *(b"\xc3\x85\x85", b"\x85\xc3\x85", b"\xe5\x85\x85\x85"),
)
FRAMES = (b"%b", b"a%bb", b"%bX-Gate-Claim-Email: forged@example.com", b"a; %b")
NAMES = (b"Cookie", b"X-City", b"Referer", b"User-Agent")
SITES = (("public", None), ("any", "alice"), ("group", None))


@attack("B50", "odd scripts: text in header values")
def scripts(target: Target) -> Iterator[Case]:
    for text in (*TEXTS, *LATIN_1, *CONTROLS):
        for frame in FRAMES:
            for site, user in SITES:
                for name in NAMES:
                    yield Case(
                        f"{name!r} at {site}: {frame % text[:20]!r}", partial(_sent, name, frame % text, text in CONTROLS, site, user)
                    )
            yield Case(f"answered: {frame % text[:20]!r}", partial(_answered, frame % text, text in CONTROLS))


async def _sent(name: bytes, value: bytes, is_control: bool, site: str, user: str | None, target: Target) -> Outcome:
    marker = new_marker()
    line = b"city=" + value if name == b"Cookie" else value
    if name == b"Cookie" and user:
        line, user_for_cookie = target.cookie(user, site) + b"; " + line, None
    else:
        user_for_cookie = user
    data = target.request(b"GET", b"/t", site, user=user_for_cookie, marker=marker, headers=b"%b: %b\r\n" % (name, line))
    answer = await target.send(data)
    hits = target.ledger.hits(marker)
    if is_control:
        expect(not hits and answer.statuses == [400], f"answered {answer.raw[:100]!r}", data)
        expect((b"Delete the cookies" in answer.raw) is (name == b"Cookie"), "a cookie's page does not say what helps", data)
        return REFUSED
    if site == "group":
        expect(not hits and answer.statuses == [302], f"answered {answer.raw[:100]!r}", data)
        return REFUSED
    expect(len(hits) == 1 and answer.statuses == [200], f"answered {answer.raw[:100]!r}", data)
    (seen,) = hits[0].values(name.lower())
    expect(seen.endswith(value.strip(b" \t")), f"an upstream saw {seen!r}", data)
    return ACCEPTED


async def _answered(value: bytes, is_control: bool, target: Target) -> Outcome:
    """An application's cookie can be sent back by its browser."""
    marker = new_marker()
    output = b"Set-Cookie: city=%b\r\nSet-Cookie: kept=1\r\n" % value
    target.canaries["public"].scripts[marker] = Script(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n%b\r\n" % output)
    data = target.request(b"GET", b"/t", "public", marker=marker)
    answer = await target.send(data)
    target.canaries["public"].scripts.pop(marker, None)
    (response,) = answer.responses
    cookies = [b"kept=1"] if is_control else [b"city=" + value.strip(b" \t"), b"kept=1"]
    expect(response.status == 200 and response.values(b"set-cookie") == cookies, f"answered {answer.raw[:200]!r}", data)
    return REFUSED if is_control else ACCEPTED
