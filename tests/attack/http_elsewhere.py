"""B19: does anything that a client says decide where gate opens a connection?"""

import asyncio
import base64
import json
from collections.abc import Callable, Iterator
from functools import partial
from urllib.parse import quote

from tests.attack.run import ACCEPTED, REFUSED, Case, Outcome, attack, expect
from tests.attack.target import FORWARD_AUTH_HOST, Target

# "P" is the port of a listener, which must receive nothing; at an address where no other program looks for its own.
LISTENER = "127.19.19.19"
URLS = (
    *(
        "http://127.19.19.19:P/",
        "https://127.19.19.19:P/",
        "http://127.19.19.19.:P/x",
        "http://2131956499:P/",
        "http://[::ffff:127.19.19.19]:P/",
    ),
    *(
        "http://group.localhost@127.19.19.19:P/",
        "http://127.19.19.19:P\\@group.localhost/",
        "//127.19.19.19:P/",
        "http:127.19.19.19:P",
        "127.19.19.19:P",
    ),
    *(
        "ftp://127.19.19.19:P/",
        "gopher://127.19.19.19:P/_x",
        "ws://127.19.19.19:P/",
        "http://0177.19.19.19:P/",
        "http://127.1250067:P/",
        "http://0x7f131313:P/",
    ),
    *(
        "http://127.19.19.19:P#@group.localhost/",
        "http://127.19.19.19:P%2f@group.localhost/",
        "http://127.19.19.19:P/.well-known/openid-configuration",
    ),
)
HEADERS = (
    *("X-Forwarded-Host", "X-Forwarded-Server", "X-Forwarded-Uri", "X-Forwarded-For", "X-Host", "X-Original-Url", "X-Original-Host"),
    *("X-Rewrite-Url", "X-Envoy-Original-Dst-Host", "X-Envoy-Original-Path", "Referer", "Origin", "Destination", "Proxy", "Location"),
    *("X-Gate-Upstream", "X-Gate-Issuer", "True-Client-Ip", "X-Http-Destinationurl", "X-Proxy-Url", "From", "Link", "Content-Location"),
)
PAGES = ("/.gate/sign_in", "/.gate/signout/", "/.gate/callback/", "/.gate/jwt", "/.gate/api/v1/login", "/oauth2/callback", "/")
KEYS = (
    "uri",
    "url",
    "iss",
    "next",
    "request_uri",
    "redirect_uri",
    "gate_redirect_uri",
    "gate_callback_uri",
    "gate_issuer",
    "jku",
    "target",
)
TOKEN_PAGES = ("/", "/.gate/jwt", "/.gate/backchannel-logout", "/oauth2/backchannel-logout")

Made = Callable[[Target, int], bytes]


@attack("B19", "addresses that a client chooses")
def addresses(target: Target) -> Iterator[Case]:
    for url in URLS:
        for user in (None, "alice"):
            yield _case(f"{url} as the target, as {user}", partial(_as_target, url, user))
            yield _case(f"{url} as the host, as {user}", partial(_as_host, url, user))
            for header in HEADERS:
                yield _case(f"{url} in {header}, as {user}", partial(_in_header, url, header, user))
        for page in ("/", "/verify"):
            yield _case(f"{url} asked of forward auth at {page}", partial(_forward_auth, url, page))
        for page in PAGES:
            for host in ("authenticate", "any"):
                for key in KEYS:
                    yield _case(f"{url} as {key} of {page} at {host}", partial(_in_query, url, page, key, host))
        for page in TOKEN_PAGES:
            yield _case(f"{url} in a token for {page}", partial(_in_token, url, page))


def _case(label: str, made: Made) -> Case:
    return Case(label, partial(_nothing_is_called, made))


async def _nothing_is_called(made: Made, target: Target) -> Outcome:
    received: list[object] = []

    def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(writer.get_extra_info("peername"))
        writer.close()

    async with await asyncio.start_server(receive, LISTENER, 0) as listening:
        data = made(target, listening.sockets[0].getsockname()[1])
        answer = await target.send(data)
        await target.send(target.beat())  # what started during the attack has had its time
    expect(not received, "gate opened a connection to where the client said", data)
    status = answer.statuses[0] if answer.raw else 400
    expect(status not in (500, 502, 504), f"the answer is {status}", data)
    return ACCEPTED if status < 300 else REFUSED


def _put(url: str, port: int) -> bytes:
    return url.replace("P", str(port)).encode()


def _as_target(url: str, user: str | None, target: Target, port: int) -> bytes:
    return target.request(b"GET", _put(url, port), "any", user=user)


def _as_host(url: str, user: str | None, target: Target, port: int) -> bytes:
    return target.request(b"GET", b"/", "any", user=user, host=_put(url, port))


def _in_header(url: str, header: str, user: str | None, target: Target, port: int) -> bytes:
    return target.request(b"GET", b"/", "any", user=user, headers=b"%b: %b\r\n" % (header.encode(), _put(url, port)))


def _forward_auth(url: str, page: str, target: Target, port: int) -> bytes:
    path = f"{page}?uri={quote(_put(url, port).decode(), safe='')}".encode()
    return target.request(b"GET", path, "any", host=FORWARD_AUTH_HOST.encode())


def _in_query(url: str, page: str, key: str, host: str, target: Target, port: int) -> bytes:
    path = f"{page}?{key}={quote(_put(url, port).decode(), safe='')}&code=x&state=y&gate_signature=z".encode()
    return target.request(b"GET", path, "any", host=target.host(host).encode())


def _in_token(url: str, page: str, target: Target, port: int) -> bytes:
    where = _put(url, port).decode()
    header = {"alg": "RS256", "kid": where, "jku": where, "x5u": where, "jwk": {"kty": "RSA", "x5u": where}}
    claims = {"iss": where, "aud": "gate", "sub": "alice", "exp": 2**40, "_claim_sources": {"a": {"endpoint": where}}}
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in (header, claims)]
    token = b".".join([*parts, b"c2ln"])
    headers = b"Authorization: Bearer %b\r\nContent-Type: application/x-www-form-urlencoded\r\n" % token
    return target.request(
        b"POST", page.encode(), "any", headers=headers, body=b"logout_token=" + token, host=target.host("authenticate").encode()
    )
