"""The demo's identity provider as a child process: users sign in without a password."""

import json
import re
from collections.abc import Iterable
from urllib.parse import parse_qs, urlsplit

import httpx

from examples.demo.people import USERS, DemoUser
from tests.support import fork_server


class DevelopmentProvider:
    """`with DevelopmentProvider() as provider:` listens on a free loopback port, as `provider.url`."""

    def __init__(self, users: Iterable[DemoUser] = USERS):
        arguments = [part for user in users for part in ("--person", user.to_argument())]
        self.child = fork_server.python("-m", "examples.demo.provider", "0", *arguments)
        announcement = json.loads(self.child.wait_for_line('"port"'))
        self.url = f"http://localhost:{announcement['port']}"

    def change(self, user: DemoUser) -> None:
        """Change the claims of a user."""
        claims = {name: value for name, value in user.claims().items() if name != "sub"}
        httpx.put(f"{self.url}/users/{user.sub}", json=claims, trust_env=False).raise_for_status()

    def stop(self) -> None:
        self.child.stop()

    def __enter__(self) -> "DevelopmentProvider":
        return self

    def __exit__(self, *_: object) -> None:
        self.child.__exit__()


async def pick_user(client: httpx.AsyncClient, page: httpx.Response, sub: str) -> httpx.Response:
    """Submit the form for a user on the provider's `page`, and return its redirect to gate."""
    if not re.search(rf'name="sub" value="{re.escape(sub)}"', page.text):
        raise AssertionError(f"{page.url} does not offer {sub}: {page.status_code}\n{page.text[:2000]}")
    return await client.post(page.url, data={"sub": sub})


async def tokens_of(provider_url: str, sub: str) -> dict[str, str]:
    """Return the tokens that another client of the provider gets for this user."""
    redirect_uri = "http://localhost:7000/cb"
    credentials = {
        "client_id": "gate-tests",
        "response_type": "code",
        "redirect_uri": redirect_uri,
        "scope": "openid profile email",
        "state": "s",
    }
    async with httpx.AsyncClient(trust_env=False) as client:
        page = await client.get(f"{provider_url}/oauth2/authorize", params=credentials)
        (code,) = parse_qs(urlsplit((await pick_user(client, page, sub)).headers["location"]).query)["code"]
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect_uri}
        tokens = await client.post(f"{provider_url}/oauth2/token", data=form, auth=("gate-tests", "not a secret"))
        return dict(tokens.raise_for_status().json())
