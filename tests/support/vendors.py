"""Third-party identity providers: `await vendor.pick(url)` signs in and returns the callback URL.

npm `oidc-provider` (certified), and npm `emulate` as Google, Microsoft, GitHub and Okta; others are the fake provider.
"""

import html
import json
import re
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import urljoin, urlsplit

import httpx

from tests.support.children import Child, free_port

EMULATORS = Path(__file__).parent / "emulators"
CLIENT_ID, CLIENT_SECRET = "gate-tests", "not-a-secret"  # some emulators do not decode Basic credentials
ALICE = "alice@corp.example"
ROBOT_TOKEN = "ghp_robot_of_gate_tests"  # token of an owner of GitHub's organisation `corp`
_FORM = re.compile(r'<form\b[^>]*action="([^"]*)"[^>]*>(.*?)</form>', re.DOTALL)
_FIELD = re.compile(r'<input[^>]*name="([^"]*)"[^>]*value="([^"]*)"')


@dataclass(frozen=True)
class Vendor:
    """A provider. `settings` are gate's; `user_id` is a pattern if the vendor numbers users.

    `tells_strangers` is False for an emulator that treats any access token as its first user's.
    """

    name: str
    settings: dict[str, Any]
    user_id: str
    pick: Callable[[str], Awaitable[str]]
    email: str = ALICE
    can_refresh: bool = True
    can_revoke: bool = True
    rejects_foreign_tokens: bool = True


class Emulators:
    def __init__(self, redirect_uri: str):
        self.ports = {name: free_port() for name in ("google", "microsoft", "github", "okta", "github_server")}
        arguments = json.dumps({"ports": self.ports, "redirect_uri": redirect_uri, "token": ROBOT_TOKEN})
        self.child = Child(EMULATORS / "node_modules" / ".bin" / "node", EMULATORS / "server.mjs", arguments)
        self.child.wait_for_line('"ready"')

    def url(self, name: str, path: str = "") -> str:
        return f"http://localhost:{self.ports[name]}{path}"


@contextmanager
def emulators(redirect_uri: str) -> Iterator[Emulators]:
    running = Emulators(redirect_uri)
    try:
        yield running
    finally:
        running.child.__exit__()


class OktaAdministration:
    """Administration of the Okta emulator, and gate's settings for its directory."""

    def __init__(self, url: str):
        self.url = url
        self._client = httpx.Client(base_url=f"{url}/api/v1", headers={"Authorization": "SSWS gate-tests"}, trust_env=False)

    def settings(self) -> dict[str, str]:
        account = b64encode(b'{"api_key": "gate-tests"}').decode()
        return {"idp_provider": "okta", "idp_provider_url": self.url, "idp_service_account": account}

    def ask(self, method: str, path: str, body: object = None) -> dict[str, object]:
        answer = self._client.request(method, path, json=body)
        answer.raise_for_status()
        return answer.json() if answer.content else {}

    def new_group(self, name: str) -> str:
        return str(self.ask("POST", "/groups", {"profile": {"name": name, "description": name}})["id"])

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


async def pick_in_form(authorization_url: str, username: str = "alice") -> str:
    """Open the page, press the user's button, and follow until the provider redirects the browser away."""
    async with httpx.AsyncClient(trust_env=False, timeout=20) as client:
        response = await client.get(authorization_url)
        for _ in range(8):
            is_redirect = response.is_redirect
            if is_redirect:
                url = urljoin(str(response.url), response.headers["location"])
                if urlsplit(url).netloc != urlsplit(authorization_url).netloc:
                    return url
                response = await client.get(url)
            else:
                assert response.status_code == 200, response.text
                action, fields = _find_form(response.text, username)
                response = await client.post(urljoin(str(response.url), action), data=fields)
    raise AssertionError(f"the provider did not come to an end: {response.url}")


def _find_form(page: str, username: str) -> tuple[str, dict[str, str]]:
    for match in _FORM.finditer(page):
        if username in match[2]:
            fields = {html.unescape(name): html.unescape(value) for name, value in _FIELD.findall(match[2])}
            return html.unescape(match[1]), fields
    assert f'value="{username}"' in page, f"nobody to pick: {page}"
    return "", {"sub": username}  # the minimal interaction of oidc_provider/server.mjs
