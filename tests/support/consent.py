"""The user's part of an authorization in the running product: sign in, allow the client, and return to it."""

import re
from base64 import urlsafe_b64encode
from hashlib import sha256
from html import unescape
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

import httpx

from tests.support.gate import AUTHENTICATE_HOST, HTML, RunningGate, follow
from tests.support.mcp_client import CALLBACK

VERIFIER = "v" * 64


async def allow(browser: httpx.AsyncClient, url: str, user: str, client_name: str = "Ticket agent") -> str:
    """Act as the user: sign in if the page asks for it, allow the client, and return the Location of the client."""
    page = await browser.get(url, headers=HTML)
    for _ in range(12):
        if page.next_request is not None:
            if str(page.next_request.url).startswith(CALLBACK):
                return str(page.next_request.url)
            page = await browser.send(page.next_request)
        elif f'value="{user}"' in page.text:
            page = await browser.post(page.url, data={"sub": user})
        else:
            fields = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', page.text))
            action = unescape(re.findall(r'<form method="post" action="([^"]+)"', page.text)[0])
            assert client_name in page.text
            page = await browser.post(urljoin(str(page.url), action), data={**fields, "decision": "allow"})
    raise AssertionError(f"no end at {page.url}: {page.text}")


def authorize_url(gate: RunningGate, client_id: str, resource: str, **more: str) -> str:
    """Return the URL of an authorization request with the challenge of VERIFIER."""
    challenge = urlsafe_b64encode(sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
    pkce = {"code_challenge": challenge, "code_challenge_method": "S256"}
    params = {"response_type": "code", "client_id": client_id, "redirect_uri": CALLBACK, "resource": resource, **pkce, **more}
    return gate.url(AUTHENTICATE_HOST, f"/.gate/oauth/authorize?{urlencode(params)}")


async def post_oauth(gate: RunningGate, path: str, **form: str) -> httpx.Response:
    """Send a form to an endpoint of the authorization server."""
    async with gate.client() as client:
        return await client.post(gate.url(AUTHENTICATE_HOST, f"/.gate/oauth/{path}"), data=form)


async def redeem(gate: RunningGate, location: str, client_id: str, resource: str) -> dict[str, str]:
    """Return the tokens for the code in the Location of a client."""
    form = {"grant_type": "authorization_code", "client_id": client_id, "resource": resource, "code_verifier": VERIFIER}
    code = parse_qs(urlsplit(location).query)["code"][0]
    tokens: dict[str, str] = (await post_oauth(gate, "token", **form, code=code, redirect_uri=CALLBACK)).json()
    return tokens


async def allow_device(browser: httpx.AsyncClient, page_url: str, user_code: str, **identity: str) -> None:
    """Enter the code of a device on the verification page and allow it; `identity` is what the user chooses at the provider."""
    page = await follow(browser, await browser.get(page_url, headers=HTML))
    for _ in range(6):
        if "The device is connected" in page.text:
            return
        if urlsplit(str(page.url)).netloc == urlsplit(page_url).netloc:
            form = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', page.text)) | {"user_code": user_code}
            form |= {"decision": "allow"} if 'name="decision"' in page.text else {}
            page = await follow(browser, await browser.post(page_url, data=form))
        else:
            page = await follow(browser, await browser.post(page.url, data=identity))
    raise AssertionError(f"no end at {page.url}: {page.text}")


def device_code_of(line: str) -> tuple[str, str]:
    """Return the URL and the code that `gate tunnel` and `gate token` print."""
    found = re.search(r"open (https://\S+) .* code (\S+)", line)
    assert found is not None, line
    return found[1], found[2]
