"""B1: is the path that was judged the path that an upstream reads?  All pairs of spellings, and all layouts of routes."""

import re
from collections.abc import Iterator
from functools import partial
from urllib.parse import quote, unquote_to_bytes

from tests.attack.http_canary import Hit
from tests.attack.run import ACCEPTED, REFUSED, Case, Indexed, Outcome, attack, expect
from tests.attack.target import FORWARD_AUTH_HOST, LAYOUT_SITES, Target, new_marker
from tests.support.path_parsers import READERS, served
from tests.support.route_layouts import open_to_all

SPELLINGS = (
    *(b"", b"/", b"//", b"///", b"/./", b"/../", b"/.", b"/..", b"x/../", b"x/..", b".", b"..", b"...", b"./", b"../", b"/.../"),
    *(b"%2e", b"%2E%2e/", b"/%2e/", b"/%2E%2e/", b"/x/%2e%2e/", b"%252e%252e/", b"/%252e%252e/", b".%2e/", b"/x/.%2E/"),
    *(b"..;/", b"/..;/", b"/..;x=y/", b";", b";x=y", b";/", b"/;x=y/", b"/;/", b"%3b", b"/%3B/", b"..%3b/", b"/x/..;/"),
    *(b"\\", b"/\\", b"\\..\\", b"%5c", b"%5C..%5c", b"..%5c", b"/%5c/"),
    *(b"%2f", b"%2F", b"/%2f", b"%2f/", b"..%2f", b"/..%2F", b"%2f..%2f", b"%252f", b"..%252f", b"x%2f..%2f"),
    *(b"%", b"%4", b"%zz", b"%u002f", b"%%32%66", b"%20", b"%09", b"%0a", b"%0d%0a", b"%00", b"%7f", b"%23", b"%3f", b"%3F/", b"%25"),
    *(b"#", b"#/", b"?", b"/?/", b"?/../", b"??", b" ", b"\t", b"\n", b"\r", b"\r\n", b"\x00", b"\x0b", b"\x0c", b"\x1f", b"\x7f"),
    *(
        b"%c0%ae%c0%ae/",
        b"%c0%af",
        b"%e0%80%af",
        b"%ef%bc%8f",
        b"%ef%bc%8e%ef%bc%8e/",
        b"\xef\xbc\x8f",
        b"\xc0\xaf",
        b"%ff",
        b"\xff",
        b"\x85",
    ),
    *(b"@", b":", b"~", b"*", b"+", b"&", b"=", b"|", b'"', b"<", b"{", b"^", b"[", b"%7e", b"%2d", b"%5f"),
)
# (site, how two spellings and the name of a protected place make a path, that name)
PLACES = (
    ("mixed", b"admin", b"/x"),
    ("mixed", b"exact", b""),
    ("mixed", b"re/ab/private", b""),
    ("inverse", b"public", b"/x"),
)
BAITS = (
    *(
        b"?/.gate/",
        b"?x=/.gate/callback/",
        b"?x=/ping",
        b"?/ping",
        b"#/.gate/",
        b"?/../public/",
        b"?/healthz",
        b"?gate_session=x",
        b";/.gate/",
    ),
    *(
        b"/.gate/",
        b"/.gate/../",
        b"/.well-known/gate/",
        b"/ping",
        b"/robots.txt",
        b"/.gate",
        b"//.gate/",
        b"/.gate/x/../../admin",
        b"?x=/.gate/sign_in",
    ),
)
LETTERS = {
    b"admin": (b"%61dmin", b"%41dmin", b"Admin", b"ADMIN", b"adm%69n", b"adm%69%6e", b"ad%6Din", b"admin%20", b"admin.", b"admi%256e")
}
UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
REFUSALS = (302, 400, 401, 403, 404, 413, 414, 421, 426, 431)
USER_NAMES = (None, "carol", "alice")
PLAIN_SPELLINGS = frozenset({b"", b"x/../", b"%2e", b"%7e", b"%2d", b"~", b"+", b"@", b":"})

# Characters at which a parser ends a name, that it drops or converts, and ordinary ones.
STRANGE = (
    *(b"/", b"//", b"//x/", b";", b";x=y", b";/", b"/;/", b"/;x/", b"%3b", b"%3B/", b"%2f", b"%2F", b";%2f", b"%2f;", b"%3b%2f", b"%2f/"),
    *(b"%252f", b"%253b", b"%253f", b"%255c", b"%2525", b"%2561", b"%25", b"%3f", b"%3F/", b"%23", b"/..;/", b"%2e%2e%2f", b"%252e%252e/"),
    *(b";.css", b"%3b.css", b"%3f.css", b"%23.css", b"%253b.css", b";/x.css", b"%2fx.css", b";%2fx.css", b"%3f/x.css"),
)
ORDINARY = (
    *(b"", b"a", b"@", b"%40", b"%20", b"+", b"%2b", b",", b"~", b":", b"!", b"'", b"(1)", b"=", b"&", b"$"),
    *(b"%c3%a9", b".css", b"/x.css"),
)
AROUND = (b"/%busers%b", b"/%badmin/users%b", b"/admin%busers%b", b"/public/%badmin%b", b"/admin/public/%bx%b", b"/users%b%bx.css")


@attack("B1", "path confusion in layouts of routes", sample=0, minutes=6)
def layouts(target: Target) -> Indexed:
    spellings = STRANGE + ORDINARY
    return Indexed(len(LAYOUT_SITES) * len(AROUND) * len(spellings) ** 2, partial(_laid_out, list(LAYOUT_SITES), spellings))


@attack("B1", "path confusion in layouts, forward auth", sample=0, minutes=4)
def forward_auth(target: Target) -> Indexed:
    spellings = STRANGE + ORDINARY
    return Indexed(len(LAYOUT_SITES) * len(AROUND) * len(spellings) ** 2, partial(_requested, list(LAYOUT_SITES), spellings))


def _laid_out(sites: list[str], spellings: tuple[bytes, ...], number: int) -> Case:
    site, path, is_ordinary = _spelled(sites, spellings, number)
    return Case(f"{path!r} at {site}", partial(_attempt_layout, site, path, is_ordinary))


def _requested(sites: list[str], spellings: tuple[bytes, ...], number: int) -> Case:
    site, path, is_ordinary = _spelled(sites, spellings, number)
    return Case(f"/verify of {path!r} at {site}", partial(_verify_layout, site, path, is_ordinary))


def _spelled(sites: list[str], spellings: tuple[bytes, ...], number: int) -> tuple[str, bytes, bool]:
    number, second = divmod(number, len(spellings))
    number, first = divmod(number, len(spellings))
    number, form = divmod(number, len(AROUND))
    path = AROUND[form] % (spellings[first], spellings[second])
    return sites[number], path, spellings[first] in ORDINARY and spellings[second] in ORDINARY and b"//" not in path


async def _verify_layout(site: str, path: bytes, is_ordinary: bool, target: Target) -> Outcome:
    """A public path is forwarded as written: every parser may serve it to all clients."""
    layout, url = LAYOUT_SITES[site], quote(f"https://{target.host(site)}{path.decode('ascii')}", safe="")
    lines = b"GET /verify?uri=%b HTTP/1.1\r\nHost: %b\r\nConnection: close\r\n\r\n" % (url.encode(), FORWARD_AUTH_HOST.encode())
    answer = await target.send(lines)
    expect(answer.is_closed and len(answer.statuses) == 1, f"answered {answer.raw[:200]!r}", lines)
    (status,) = answer.statuses
    if status == 200:
        for name, reader in READERS.items():
            found = served(reader, path.decode("ascii"))
            expect(found is None or open_to_all(layout, found), f"{name} serves {found}", lines)
    else:
        expect(status in (401, 403), f"answered {status}", lines)
    if is_ordinary:
        expect((status == 200) is open_to_all(layout, _plainly(path)), f"answered {status} to an ordinary path", lines)
    return ACCEPTED if status == 200 else REFUSED


def _plainly(path: bytes) -> str:
    predicted = _predicted(path)
    return "" if predicted is None else predicted.decode("ascii")


async def _attempt_layout(site: str, path: bytes, is_ordinary: bool, target: Target) -> Outcome:
    """Without sign-in: every parser may serve to all clients what reaches an upstream, and ordinary names are never refused for their
    spelling."""
    marker, layout = new_marker(), LAYOUT_SITES[site]
    data = target.request(b"GET", path, site, marker=marker)
    answer = await target.send(data)
    expect(answer.is_closed and len(answer.statuses) == 1, f"answered {answer.raw[:200]!r}", data)
    (status,), hits = answer.statuses, target.ledger.hits(marker)
    expect(len(hits) <= 1, f"{len(hits)} requests reached upstreams", data)
    for hit in hits:
        expect(hit.canary == "open", "no client reached a protected path", data)
        for name, reader in READERS.items():
            found = served(reader, hit.target.decode("ascii"))
            expect(found is None or open_to_all(layout, found), f"{name} serves {found} for {hit.target!r}", data)
    if is_ordinary:
        expect(bool(hits) is open_to_all(layout, _plainly(path)) and status != 400, f"answered {status} to an ordinary path", data)
    expect(bool(hits) or status in REFUSALS, f"answered {status} without an upstream", data)
    return ACCEPTED if hits else REFUSED


@attack("B1", "path confusion, all pairs", sample=0)
def pairs(target: Target) -> Indexed:
    forms = [(site, b"/%b" + name + b"%b" + tail) for site, name, tail in PLACES]
    forms += [(site, b"/open%b%b" + name + tail) for site, name, tail in PLACES if name in (b"admin", b"public")]
    return Indexed(len(forms) * len(SPELLINGS) ** 2 * len(USER_NAMES), partial(_pair, forms))


def _pair(forms: list[tuple[str, bytes]], number: int) -> Case:
    number, user_name = divmod(number, len(USER_NAMES))
    number, second = divmod(number, len(SPELLINGS))
    number, first = divmod(number, len(SPELLINGS))
    site, form = forms[number]
    spellings = (SPELLINGS[first], SPELLINGS[second])
    return _case(site, form % spellings, USER_NAMES[user_name], PLAIN_SPELLINGS.issuperset(spellings))


@attack("B1", "path confusion, baits and odd targets", sample=0)
def baits(target: Target) -> Iterator[Case]:
    for site, name, tail in PLACES:
        odd = [
            b"*",
            b"",
            name,
            b"http:",
            b"//",
            b"/" * 5000 + name,
            b"/" + name + b"/" + b"a" * 32768,
            b"/" + b"../" * 2000 + name,
            b"/" + b"%2e%2e/" * 1000 + name,
        ]
        odd += [
            scheme + host + b"/" + name
            for scheme in (b"http://", b"https://", b"HTTP://", b"ftp://", b"//")
            for host in _hosts(target, site)
        ]
        odd += [b"/" + each for each in LETTERS.get(name, ())]
        odd += [b"/" + name + bait for bait in BAITS] + [bait + b"/" + name for bait in BAITS] + [bait + name for bait in BAITS]
        odd += [b"/" + b"".join(b"%%%02x" % byte for byte in name) + tail, b"/" + b"".join(b"%%25%02x" % byte for byte in name) + tail]
        odd += [b"/" + name[:2] + bytes([byte]) + name[2:] + tail for byte in range(256)] + [
            b"/" + name + b"%%%02X" % byte for byte in range(256)
        ]
        odd += [b"/" + b"%%%02x" % byte + name for byte in range(256)]
        yield from (_case(site, path, user, False) for path in odd for user in USER_NAMES)


def _hosts(target: Target, site: str) -> list[bytes]:
    return [target.host(site).encode(), target.host("public").encode(), b"evil.example", b"u@" + target.host(site).encode(), b""]


def _case(site: str, path: bytes, user: str | None, is_plain: bool) -> Case:
    return Case(f"{path[:80]!r} at {site} as {user}", partial(_attempt, site, path, user, is_plain))


async def _attempt(site: str, path: bytes, user: str | None, is_plain: bool, target: Target) -> Outcome:
    marker = new_marker()
    data = target.request(b"GET", path, site, user=user, marker=marker)
    answer = await target.send(data)
    hits = target.ledger.hits(marker)
    expect(len(hits) <= 1, f"{len(hits)} requests reached upstreams", data)
    for hit in hits:
        _check_hit(site, path, user, hit, data)
    expect(answer.is_closed and len(answer.statuses) == 1, f"answered {answer.raw[:200]!r}", data)
    if hits:
        return ACCEPTED
    (status,) = answer.statuses
    is_own = status in (200, 301) and b"\r\nx-canary:" not in answer.raw.lower()
    expect(status in REFUSALS or is_own, f"answered {status} without an upstream", data)
    expect(
        not (is_plain and user == "alice" and status == 400 and _predicted(path)),
        f"refused an ordinary path: {answer.raw[-300:]!r}",
        data,
    )
    return REFUSED


def _check_hit(site: str, path: bytes, user: str | None, hit: Hit, data: bytes) -> None:
    wanted = _predicted(_without_authority(path))
    expect(wanted is not None, f"a path without one reading went upstream as {hit.target!r}", data)
    expect(hit.target in (wanted, wanted + b"?"), f"went upstream as {hit.target!r}, not as {wanted!r}", data)
    readings = _readings(hit.target.partition(b"?")[0])
    if hit.canary == "secret":
        expect(user == "alice", f"{user} reached what is protected", data)
    else:
        expect(
            not any(_is_protected(site, reading) for reading in readings), f"an upstream may read {hit.target!r} as a protected path", data
        )


def _is_protected(site: str, path: bytes) -> bool:
    if site == "inverse":
        return not path.startswith(b"/public/")
    return path.startswith(b"/admin") or path == b"/exact" or re.fullmatch(rb"/re/[a-z]+/private", path) is not None


def _without_authority(target: bytes) -> bytes:
    found = re.match(rb"(?i)https?://[^/?#]*", target)
    rest = target[found.end() :] if found else target
    return rest if rest.startswith(b"/") or not found else b"/" + rest


def _predicted(target: bytes) -> bytes | None:
    """RFC 3986 6.2.2 and the page of decisions: the one form, or None where it must be refused."""
    path, _, query = target.partition(b"?")
    if (
        not path.startswith(b"/")
        or re.search(rb"[^!-~]|[#\\]", path)
        or re.search(rb"[^!-~]|#", query.translate(None, bytes(range(0x80, 0x100))))
    ):
        return None
    normal = bytearray()
    position = 0
    while position < len(path):
        if path[position] != 0x25:
            normal.append(path[position])
            position += 1
            continue
        digits = path[position + 1 : position + 3]
        if not re.fullmatch(rb"[0-9a-fA-F]{2}", digits):
            return None
        value = int(digits, 16)
        if value < 0x20 or value in (0x5C, 0x7F):
            return None
        normal += bytes([value]) if value in UNRESERVED else b"%%%02X" % value
        position += 3
    try:
        unquote_to_bytes(bytes(normal)).decode("utf-8")
    except UnicodeDecodeError:
        return None
    stored = b"&".join(pair for pair in query.split(b"&") if pair.partition(b"=")[0] != b"gate_session")
    return _dots_removed(bytes(normal)) + (b"?" + stored if stored else b"")


def _dots_removed(path: bytes) -> bytes:
    """RFC 3986 5.2.4, step by step as it is printed there."""
    output = b""
    while path:
        if path.startswith(b"/./") or path == b"/.":
            path = b"/" + path[3:]
        elif path.startswith(b"/../") or path == b"/..":
            path, output = b"/" + path[4:], output[: output.rfind(b"/")] if b"/" in output else b""
        else:
            end = path.find(b"/", 1)
            end = len(path) if end == -1 else end
            output, path = output + path[:end], path[end:]
    return output


def _readings(path: bytes) -> set[bytes]:
    """How applications read a path: escapes decoded, parameters dropped, slashes merged, dots resolved, in several orders."""
    found = {path}
    for _ in range(4):
        for each in list(found):
            found |= {re.sub(rb"/+", b"/", each), re.sub(rb";[^/]*", b"", each), each.replace(b"\\", b"/"), _dots_removed(each)}
            if each == path or each in _parameterless(path):
                found.add(unquote_to_bytes(each))  # once: who decodes twice is beyond help
    return {each for each in found if each.startswith(b"/")}


def _parameterless(path: bytes) -> set[bytes]:
    return {re.sub(rb";[^/]*", b"", path), re.sub(rb"/+", b"/", path), re.sub(rb"/+", b"/", re.sub(rb";[^/]*", b"", path))}
