"""B9: can anything that a stranger writes into a link make gate send a browser to the stranger?"""

import random
import re
import time
from collections.abc import Callable, Iterator
from functools import partial

from tests.attack.identity_attack import Attempt, identity_attack
from tests.attack.identity_browser import HTML, Answer, Browser
from tests.attack.identity_landings import Landings
from tests.attack.identity_redirect_corpus import as_path, corpus, in_query
from tests.attack.identity_stage import ANYONE, CORP, MOVED, OTHER, PUBLIC, Stage
from tests.attack.run import REFUSED, SEED, Failed, Outcome
from tests.support.gate import AUTHENTICATE_HOST
from tests.support.raw_http import Broken

Surface = Callable[[str], Answer]
SIGNED_URL_AGE = 120.0  # seconds; gate takes them for five minutes
WITH_SESSION = 60  # of these surfaces each case costs a sign-in
_TOKEN = re.compile(r'name="_gate_csrf" value="([^"]+)"')
_HOST_PATHS = ("/", "/.gate/", "/.gate", "/.gate/signout/", "/.gate/admin", "/.gate/callback/", "/oauth2/callback")
_IDENTITY_HEADERS = (
    "Referer",
    "Origin",
    "X-Forwarded-Host",
    "X-Forwarded-Proto",
    "X-Forwarded-Uri",
    "X-Original-URL",
    "X-Rewrite-URL",
    "Forwarded",
)


@identity_attack("B9", "open redirect", sample=400)
def open_redirect(stage: Stage) -> Iterator[Attempt]:
    surfaces = Surfaces(stage)
    for surface, text in surfaces.cases():
        yield f"{surface} {text[:200]!r}", partial(surfaces.attempt, surface, text)


class Surfaces:
    """Every place of gate's that reads something from a link and may answer with another."""

    def __init__(self, stage: Stage):
        self._stage = stage
        hosts = (AUTHENTICATE_HOST, ANYONE, OTHER, PUBLIC, CORP)
        self.landings = Landings([*(stage.url(host, "") for host in hosts), stage.idp.issuer])
        self._stranger = stage.browser()
        self._browser = stage.browser()
        self._leaving = stage.browser()
        self._signed = ("", 0.0)
        self._csrf = ""
        self._surfaces: dict[str, Surface] = {
            name.removeprefix("_at_"): getattr(self, name) for name in sorted(dir(self)) if name.startswith("_at_")
        }

    def cases(self) -> Iterator[tuple[str, str]]:
        texts = corpus(*(f"{host}:{self._stage.gate.port}" for host in (ANYONE, AUTHENTICATE_HOST)))
        for surface in self._surfaces:
            costs_a_sign_in = surface.startswith("session_")
            yield from ((surface, text) for text in (random.Random(SEED).sample(texts, WITH_SESSION) if costs_a_sign_in else texts))

    def attempt(self, surface: str, text: str) -> Outcome:
        try:
            answer = self._surfaces[surface](text)
        except Broken:
            return REFUSED  # closed instead of answered
        if problem := self.landings.problem(answer):
            raise Failed(problem, text.encode("utf-8", "surrogatepass"))
        return REFUSED

    # Sign-in: a real signed URL, bent.

    def _at_sign_in_replaced(self, text: str) -> Answer:
        return self._bent_sign_in(re.sub(r"(gate_redirect_uri=)[^&]*", lambda match: match[1] + in_query(text), self._signed_url()))

    def _at_duplicate_sign_in(self, text: str) -> Answer:
        return self._bent_sign_in(f"{self._signed_url()}&gate_redirect_uri={in_query(text)}")

    def _at_duplicate_sign_in_before(self, text: str) -> Answer:
        return self._bent_sign_in(self._signed_url().replace("?", f"?gate_redirect_uri={in_query(text)}&", 1))

    def _at_sign_in_raw(self, text: str) -> Answer:
        return self._bent_sign_in(self._signed_url().partition("?")[0] + "?gate_redirect_uri=" + as_path(text)[1:])

    def _bent_sign_in(self, url: str) -> Answer:
        answer = self._stranger.open(url, cookies=False)
        if answer.status not in (400, 414):
            raise Failed(f"a bent sign-in link was answered with status {answer.status}: {url}")
        return answer

    def _signed_url(self) -> str:
        url, made = self._signed
        if time.monotonic() - made > SIGNED_URL_AGE:
            url = self._stranger.open(self._stage.url(ANYONE, "/signed"), cookies=False).location
            self._signed = url, time.monotonic()
        return url

    # Sign-out: with a token that is valid, without one, and from a route host.

    def _at_sign_out_form(self, text: str) -> Answer:
        return self._post_sign_out(self._stranger, f"gate_redirect_uri={in_query(text)}&_gate_csrf={self._token()}")

    def _at_sign_out_link(self, text: str) -> Answer:
        return self._stranger.open(self._sign_out_url(f"?_gate_csrf={self._token()}&gate_redirect_uri={in_query(text)}"))

    def _at_sign_out_question(self, text: str) -> Answer:
        return self._stranger.open(self._sign_out_url(f"?gate_redirect_uri={in_query(text)}"))

    def _at_sign_out_of_a_route(self, text: str) -> Answer:
        first = self._stranger.open(self._stage.url(ANYONE, f"/.gate/signout/?gate_redirect_uri={in_query(text)}"), cookies=False)
        # It only passes the wish on; the authenticate host judges it.
        return self._stranger.open(first.location) if first.location.startswith(self._stage.authenticate + "/") else first

    def _at_session_sign_out(self, text: str) -> Answer:
        user = self._leaving
        user.cookies.clear()
        self._stage.sign_in(user)
        page = user.open(self._stage.url(AUTHENTICATE_HOST, "/.gate/"))
        token = _TOKEN.findall(page.text)[0]
        return self._post_sign_out(user, f"gate_redirect_uri={in_query(text)}&_gate_csrf={token}")

    def _post_sign_out(self, browser: Browser, form: str) -> Answer:
        headers = (*HTML, ("Content-Type", "application/x-www-form-urlencoded"))
        return browser.open(self._sign_out_url(), method="POST", headers=headers, body=form)

    def _sign_out_url(self, query: str = "") -> str:
        return self._stage.url(AUTHENTICATE_HOST, f"/.gate/signout/{query}")

    def _token(self) -> str:
        if not self._csrf:
            self._csrf = _TOKEN.findall(self._stranger.open(self._sign_out_url()).text)[0]
        return self._csrf

    # Own pages that take no address, asked as if they did.

    def _at_dashboard(self, text: str) -> Answer:
        return self._ask(AUTHENTICATE_HOST, f"/.gate/?gate_redirect_uri={in_query(text)}&next={in_query(text)}")

    def _at_callback_of_the_provider(self, text: str) -> Answer:
        return self._ask(AUTHENTICATE_HOST, f"/oauth2/callback?state=x&code=y&gate_redirect_uri={in_query(text)}")

    def _at_callback_error(self, text: str) -> Answer:
        return self._ask(AUTHENTICATE_HOST, f"/oauth2/callback?state={in_query(text)}&error={in_query(text)}&error_uri={in_query(text)}")

    def _at_callback_of_a_route(self, text: str) -> Answer:
        return self._ask(ANYONE, f"/.gate/callback/?gate_redirect_uri={in_query(text)}&gate_session={in_query(text)}")

    def _at_admin_login(self, text: str) -> Answer:
        return self._ask(AUTHENTICATE_HOST, f"/.gate/admin/login/?next={in_query(text)}")

    def _at_admin_path(self, text: str) -> Answer:
        return self._ask(AUTHENTICATE_HOST, f"/.gate/admin{as_path(text)}")

    # Paths.

    def _at_path_of_a_route(self, text: str) -> Answer:
        return self._ask(ANYONE, as_path(text))

    def _at_path_before_a_slashless_page(self, text: str) -> Answer:
        return self._ask(ANYONE, f"{as_path(text)}/../.gate")

    def _at_path_of_a_redirect_route(self, text: str) -> Answer:
        return self._ask(MOVED, as_path(text))

    def _at_path_of_the_authenticate_host(self, text: str) -> Answer:
        return self._ask(AUTHENTICATE_HOST, as_path(text))

    def _at_path_through_sign_in(self, text: str) -> Answer:
        """A person who has a session is led to the authenticate host and back: the last step's Location is judged, too."""
        browser, stage = self._browser, self._stage
        if not stage.is_signed_in(browser):
            stage.sign_in(browser)
        browser.cookies[OTHER] = {}
        answer = browser.open(stage.url(OTHER, as_path(text)))
        for _ in range(2):
            if self.landings.problem(answer) or not answer.location.startswith("https://"):
                return answer
            answer = browser.open(answer.location)
        if not answer.location.startswith(stage.url(OTHER, "/")):
            raise Failed(f"sign-in ended with status {answer.status} at {answer.location!r}")
        return answer

    # Headers.

    def _at_host_header(self, text: str) -> Answer:
        return self._with_headers(text, lambda path, value: self._ask(ANYONE, path, host=value))

    def _at_identity_header(self, text: str) -> Answer:
        header = _IDENTITY_HEADERS[len(text) % len(_IDENTITY_HEADERS)]
        return self._with_headers(text, lambda path, value: self._ask(ANYONE, path, headers=(*HTML, (header, value))))

    def _with_headers(self, text: str, ask: Callable[[str, str], Answer]) -> Answer:
        value = re.sub(r"[\r\n]", "", text)
        return ask(_HOST_PATHS[sum(text.encode("utf-8", "replace")) % len(_HOST_PATHS)], value)

    def _ask(self, name: str, path: str, *, host: str | None = None, headers: tuple[tuple[str, str], ...] = HTML) -> Answer:
        return self._stranger.open(self._stage.url(name, path), headers=headers, host=host, cookies=False)
