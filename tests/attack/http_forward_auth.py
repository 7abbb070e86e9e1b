"""B18: does forward auth permit nothing but what the person may see, whatever the front proxy passes on of the client's?"""

import asyncio
import itertools
import random
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from urllib.parse import quote

from tests.attack.run import ACCEPTED, REFUSED, SEED, Case, Outcome, attack, expect
from tests.attack.target import FORWARD_AUTH_HOST, TRUSTED_ADDRESS, Target

METHODS = (b"GET", b"HEAD", b"OPTIONS", b"POST", b"PUT", b"DELETE")
AGENTS = (
    b"kube-probe/1.29",
    b"GoogleHC/1.0",
    b"ELB-HealthChecker/2.0",
    b"Prometheus/2.45",
    b"Blackbox Exporter",
    b"gate",
    b"Envoy/HC",
    b"",
)
DISGUISES = (
    *(b"Content-Type: application/grpc\r\n", b"Accept: application/json\r\n", b"Sec-Fetch-Mode: navigate\r\n", b"X-Requested-With: x\r\n"),
    *(b"Origin: https://x.example\r\nAccess-Control-Request-Method: GET\r\n", b"Upgrade: websocket\r\nConnection: Upgrade\r\n"),
    *(b"X-HTTP-Method-Override: OPTIONS\r\n", b"Authorization: Gate x\r\n", b"Connection: Cookie\r\n", b"Range: bytes=0-1\r\n"),
    *(b"If-None-Match: *\r\n", b"X-Forwarded-For: 127.0.0.1\r\n", b"Via: 1.1 gate\r\n"),
)
SOURCES = (
    *(b"X-Original-URL", b"X-Original-Uri", b"X-Forwarded-Uri", b"X-Forwarded-Host", b"X-Forwarded-Proto", b"X-Forwarded-Prefix"),
    *(
        b"X-Forwarded-Method",
        b"X-Original-Method",
        b"X-Rewrite-Url",
        b"X-Forwarded-Port",
        b"Forwarded",
        b"X-Original-Host",
        b"X_Original_Url",
    ),
)
IDENTITIES = (
    b"X-Gate-Claim-Email",
    b"x-gate-jwt-assertion",
    b"X_Gate_Claim_Email",
    b"X.Gate.Claim.Role",
    b"XGateClaimRole",
    b"Impersonate-User",
)
# Each begins below a public path and ends, for some parser, in a forbidden one; or the reverse.
PATHS = (
    *(
        "/public/../secret",
        "/public/%2e%2e/secret",
        "/public/.%2e/secret",
        "/public/..%2fsecret",
        "/public/..;/secret",
        "/public%2f..%2fsecret",
    ),
    *(
        "/public/\\..\\secret",
        "/public/%5c..%5csecret",
        "/public/%00/../secret",
        "/public/%c0%ae%c0%ae/secret",
    ),
    *("/secret/../public/", "/secret/..%2fpublic/", "/secret;/../public/", "/secret?/public/", "/secret%3f/public/", "/secret%23/public/"),
    *(
        "/%70ublic/x",
        "/pub%6cic/x",
        "//public/x",
        "/./public/x",
        "/public%2fx",
        "/public;x/y",
        "/PUBLIC/x",
        "/public",
        "/publicx",
        "/%2fpublic/x",
    ),
)
AROUND = (
    "{}",
    "{}&uri={other}",
    "{}&x=1",
    "x=1&{}",
    "{other_pair}&{}",
    "{}#x",
    "{}%00",
    "{}%0d%0aX",
    "&{}",
    "{};uri={other}",
    "{}%26uri%3D{other}",
)


@attack("B18", "forward auth allows a client without a session")
def strangers(target: Target) -> Iterator[Case]:
    for query in _queries(target):
        for path in (b"/verify", b"/"):
            for user in (None, "carol"):
                yield Case(f"{path!r} {query[:90]!r} as {user}", partial(_permits_nothing, _request(target, path, query, user)))
    secret = b"uri=" + _secret(target).encode()
    for method, agent, path in itertools.product(METHODS, AGENTS, (b"/verify", b"/")):
        data = _request(target, path, secret, None, b"User-Agent: %b\r\n" % agent, method=method)
        yield Case(f"{method!r} by {agent!r}", partial(_permits_nothing, data))
    for count in (1, 2, 3):
        for chosen in itertools.combinations(DISGUISES, count):
            for user in (None, "carol"):
                yield Case(f"{chosen} as {user}", partial(_permits_nothing, _request(target, b"/verify", secret, user, b"".join(chosen))))


@attack("B18", "forward auth with another source of the URL")
def sources(target: Target) -> Iterator[Case]:
    public = f"https://{target.host('public')}/"
    values = (public, "/", target.host("public"), "http", "OPTIONS", "GET", "/public/", f"host={target.host('public')};proto=https", "")
    secret = b"uri=" + _secret(target).encode()
    preflight = b"Origin: https://x.example\r\nAccess-Control-Request-Method: GET\r\n"
    for name, value, extra in itertools.product(SOURCES, values, (b"", preflight)):
        for user, address in itertools.product((None, "carol"), ("127.0.0.1", TRUSTED_ADDRESS)):
            line = b"%b: %b\r\n" % (name, value.encode())
            for query in (secret, b""):
                if query or address == "127.0.0.1":
                    data = _request(target, b"/verify", query, user, line + extra)
                    yield Case(f"{line!r} from {address} as {user}", partial(_permits_nothing, data, address=address))


def _pairs(cookie: bytes) -> list[bytes]:
    """Cookie pairs without the white space around them, which says nothing (RFC 6265 5.2)."""
    return [pair.strip() for pair in cookie.split(b";")]


@attack("B18", "forward auth with malformed cookies")
def cookies(target: Target) -> Iterator[Case]:
    real = target.cookie("alice", "group")
    pick = random.Random(f"{SEED} cookies")
    secret = b"uri=" + _secret(target).encode()
    for index in range(10_000):
        value = bytearray(real)
        for _ in range(pick.randint(1, 4)):
            at = pick.randrange(6, len(value))
            value[at : at + pick.randint(0, 3)] = bytes(pick.choice(b"ABCxyz012-_=%\"',. ") for _ in range(pick.randint(0, 3)))
        if _pairs(bytes(value)) != _pairs(real):
            line = b"Cookie: %b\r\n" % bytes(value)
            data = _request(target, (b"/verify", b"/")[index % 2], secret, None, line)
            yield Case(f"cookie {index}", partial(_permits_nothing, data))


@attack("B18", "forward auth passes a claimed identity")
def identities(target: Target) -> Iterator[Case]:
    for name, site in itertools.product(IDENTITIES, ("group", "public")):
        query = f"uri=https://{target.host(site)}/".encode()
        for path in (b"/verify", b"/"):
            data = _request(target, path, query, "alice", b"%b: evil\r\n" % name)
            yield Case(f"{name!r} at {site}", partial(_permits_nothing, data))


@attack("B18", "forward auth allows valid users")
def welcome(target: Target) -> Iterator[Case]:
    for site, user in (("group", "alice"), ("any", "carol"), ("public", None)):
        url = f"https://{target.host(site)}/x?y=1"
        for query in (f"uri={url}", f"uri={quote(url, safe='')}"):
            for path in (b"/verify", b"/"):
                yield Case(f"{query} as {user}", partial(_permits, _request(target, path, query.encode(), user, site=site)))


def _secret(target: Target) -> str:
    return f"https://{target.host('group')}/"


def _queries(target: Target) -> Iterator[bytes]:
    """Questions that a careless front proxy could make of a request for a page that the user may not see."""
    secret, other = _secret(target), quote(f"https://{target.host('public')}/", safe="")
    inverse = f"https://{target.host('inverse')}"
    urls = [secret, *(f"{inverse}{path}" for path in PATHS)]
    for host in (
        f"u@{target.host('group')}",
        f"{target.host('public')}@{target.host('group')}",
        f"{target.host('public')}\\@{target.host('group')}",
    ):
        urls.append(f"https://{host}/")
    for scheme in ("http", "ftp", "file", "javascript", "HTTPS", "https:", "//", ""):
        urls.append(f"{scheme}://{target.host('group')}/" if scheme.isalpha() else f"{scheme}{target.host('group')}/")
    for url in urls:
        for written in (url, quote(url, safe=""), quote(url, safe=":/"), quote(quote(url, safe=""), safe=""), url.replace("/", "%2f")):
            for around in AROUND:
                # A plainly written URL takes all that follows, and nothing before it is allowed: the URL that counts is always this one.
                text = around.format(f"uri={written}", other=other, other_pair=f"uri={other}")
                yield text.encode("ascii", "ignore")


def _request(
    target: Target, path: bytes, query: bytes, user: str | None, lines: bytes = b"", *, method: bytes = b"GET", site: str = "group"
) -> bytes:
    cookie = b"Cookie: %b\r\n" % target.cookie(user, site) if user else b""
    head = b"%b %b%b HTTP/1.1\r\nHost: %b\r\n" % (method, path, b"?" + query if query else b"", FORWARD_AUTH_HOST.encode())
    return head + cookie + lines + b"Connection: close\r\n\r\n"


async def _permits_nothing(data: bytes, target: Target, *, address: str = "127.0.0.1") -> Outcome:
    raw = await _send(target, data, address)
    status = raw.split(b"\r\n", 1)[0]
    expect(raw.startswith(b"HTTP/1.1 "), f"no answer: {raw[:200]!r}", data)
    expect(not status.startswith(b"HTTP/1.1 2"), f"it says {status!r}", data)
    expect(b"x-gate-" not in raw.split(b"\r\n\r\n", 1)[0].lower(), "a refusal discloses data of the user", data)
    expect(data.startswith((b"GET /verify", b"HEAD /verify")) <= (b"\r\nlocation:" not in raw.lower()), "/verify redirects", data)
    return REFUSED


async def _permits(data: bytes, target: Target) -> Outcome:
    raw = await _send(target, data, "127.0.0.1")
    expect(raw.startswith(b"HTTP/1.1 200 "), f"refused: {raw[:200]!r}", data)
    return ACCEPTED


async def _send(target: Target, data: bytes, address: str) -> bytes:
    name = "authenticate.localhost" if target.tls else None
    reader, writer = await asyncio.open_connection("127.0.0.1", target.port, ssl=target.tls, server_hostname=name, local_addr=(address, 0))
    try:
        writer.write(data)
        return await asyncio.wait_for(reader.read(), 20)
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
