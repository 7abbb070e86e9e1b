"""HTTP client that signs a user in at a running gate and follows redirects like a browser.

All host names are dialled at 127.0.0.1. Each host has separate cookies, as in browsers without `cookie_domain`.
"""

import html
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookies import SimpleCookie
from urllib.parse import urljoin, urlsplit

import httpx

MAX_STEPS = 15
_FORM = re.compile(r"<form\b(?P<attributes>[^>]*)>(?P<content>.*?)</form>", re.IGNORECASE | re.DOTALL)
_CONTROL = re.compile(r"<(?:button|input)\b(?P<attributes>[^>]*)>", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"([a-z-]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')", re.IGNORECASE)


class SignInFailed(AssertionError):
    """The sign-in did not lead back to the first URL; the message lists the steps."""


@dataclass(frozen=True)
class Step:
    method: str
    url: str
    status: int

    def __str__(self) -> str:
        """Return the step without the query, which contains tokens."""
        return f"{self.method} {self.url.partition('?')[0]} -> {self.status}"


class Browser:
    """`with Browser() as browser: browser.sign_in("https://hello.localhost:8443/", "alice")`; `steps` lists the requests."""

    def __init__(self, *, authority: str | None = None, dial: Mapping[str, str] | None = None, timeout: float = 10.0):
        """Initialize. `authority` is the file of a trusted certificate authority; without it certificates are not verified.

        `dial` maps host names to the dialled origin (`http://127.0.0.1:8000`), for a gate behind a load balancer.
        """
        self._dial = dial or {}
        self.cookies: dict[str, dict[str, str]] = {}
        self.steps: list[Step] = []
        self._client = httpx.Client(verify=_context(authority), timeout=timeout, trust_env=False)

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def sign_in(self, url: str, username: str) -> httpx.Response:
        """Open `url`, sign in as `person` at the provider, and return the final response of `url`, with any status.

        Raises SignInFailed if the sign-in ends elsewhere.
        """
        response = self.follow(url)
        if form := _picking_form(response.text, username):
            action, data = form
            response = self.follow(urljoin(self.steps[-1].url, action), method="POST", data=data)
        if urlsplit(self.steps[-1].url).netloc != urlsplit(url).netloc:
            raise SignInFailed("\n".join(map(str, self.steps)))
        return response

    def follow(self, url: str, *, method: str = "GET", data: dict[str, str] | None = None) -> httpx.Response:
        """Send one request and follow its redirects to the end."""
        for _ in range(MAX_STEPS):
            response = self.request(method, url, data=data)
            if response.status_code not in (301, 302, 303, 307, 308):
                return response
            url = urljoin(url, response.headers["location"])
            if response.status_code not in (307, 308):
                method, data = "GET", None
        raise SignInFailed("too many redirects\n" + "\n".join(map(str, self.steps)))

    def request(
        self, method: str, url: str, *, data: dict[str, str] | None = None, headers: dict[str, str] | None = None
    ) -> httpx.Response:
        """Send one request like a browser's navigation, without following redirects."""
        parts = urlsplit(url)
        sent = {"host": parts.netloc, "accept": "text/html,*/*;q=0.8", "sec-fetch-mode": "navigate", **(headers or {})}
        if cookie := self.cookie_header(parts.hostname):
            sent["cookie"] = cookie
        origin = httpx.URL(self._dial.get(parts.hostname, url))
        port = origin.port if parts.hostname in self._dial else parts.port
        dialled = httpx.URL(url).copy_with(scheme=origin.scheme, host="127.0.0.1", port=port)
        response = self._client.request(method, dialled, data=data, headers=sent, extensions={"sni_hostname": parts.hostname})
        # Not the client's jar, which is keyed by the dialled address and so shared by all hosts.
        self._client.cookies.clear()
        self._keep_cookies(parts.hostname, response)
        self.steps.append(Step(method, url, response.status_code))
        return response

    def cookie_header(self, host: str) -> str:
        """Return the Cookie header for `host`; cookies are not isolated by port (RFC 6265 8.5)."""
        return "; ".join(f"{name}={value}" for name, value in self.cookies.get(host, {}).items())

    def _keep_cookies(self, host: str, response: httpx.Response) -> None:
        jar = self.cookies.setdefault(host, {})
        for header in response.headers.get_list("set-cookie"):
            for name, morsel in SimpleCookie(header).items():
                if morsel["max-age"] == "0" or not morsel.value:
                    jar.pop(name, None)
                else:
                    jar[name] = morsel.value


def _context(authority: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority)
    if authority is None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _picking_form(page: str, username: str) -> tuple[str, dict[str, str]] | None:
    """Return (action, fields) of the form on the provider's page that signs `person` in: a button with that value, or a field `sub`."""
    forms = [(_attributes(form["attributes"]).get("action", ""), _controls(form["content"])) for form in _FORM.finditer(page)]
    for action, controls in forms:
        if any(control.get("value") == username for control in controls):
            hidden = {control["name"]: control.get("value", "") for control in controls if control.get("type") == "hidden"}
            return action, {**hidden, "sub": username}
    for action, controls in forms:
        if any(control.get("name") == "sub" for control in controls):
            return action, {"sub": username}
    return None


def _controls(content: str) -> list[dict[str, str]]:
    return [_attributes(control["attributes"]) for control in _CONTROL.finditer(content)]


def _attributes(text: str) -> dict[str, str]:
    return {name.lower(): html.unescape(double or single) for name, double, single in _ATTRIBUTE.findall(text)}
