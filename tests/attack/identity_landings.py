"""Where does an answer send a browser?  Checked by a strict parser and by Chromium's URL parser."""

import html
import re
from collections.abc import Iterable
from urllib.parse import parse_qsl, urlsplit

from tests.attack.identity_browser import Answer
from tests.support.browser import Browser as Chromium

_ABSOLUTE = re.compile(r"(https?://[a-z0-9.-]+(?::[1-9][0-9]*)?)(?:[/?#]|$)")
_RELATIVE = re.compile(r"(?:/(?![/\\])|\?|$)")
_PLAIN = re.compile(r"[!-~]*")
_LINKS = re.compile(r"(?:href|src|action|formaction)\s*=\s*[\"']?([^\"'\s>]*)|name=\"gate_redirect_uri\" value=\"([^\"]*)\"", re.IGNORECASE)
_REFRESH = re.compile(r"http-equiv\s*=\s*[\"']?refresh", re.IGNORECASE)
# Parameters of gate and of the provider that a later step follows.
_NESTED = ("gate_redirect_uri", "post_logout_redirect_uri", "redirect_uri", "gate_callback_uri", "next")


class Landings:
    """`origins` are where a browser may end up.  `seen` collects (base, target) for Chromium."""

    def __init__(self, origins: Iterable[str]):
        self.origins = frozenset(origins)
        self.seen: set[tuple[str, str]] = set()

    def problem(self, answer: Answer) -> str:
        """ "" if every target of this response is a host of gate."""
        if answer.status >= 500:
            return f"answered with status {answer.status}"
        if answer.header("refresh") or _REFRESH.search(answer.text):
            return "a refresh"
        if answer.status in range(300, 400) and not answer.location:
            return "a redirect to nowhere"
        targets = [answer.location] if answer.location else []
        if answer.header("content-type").startswith("text/html"):
            targets += [html.unescape(first or second) for first, second in _LINKS.findall(answer.text)]
        return next((f"leads to {target!r}" for target in targets if not self._is_gate_host(answer.url, target)), "")

    def _is_gate_host(self, base: str, target: str) -> bool:
        if target.startswith("data:image/svg+xml,") and "<" not in target:
            return True  # the icon of our pages
        self.seen.add((base, target))
        if not _PLAIN.fullmatch(target) or "\\" in target.partition("?")[0]:
            return False
        if not _RELATIVE.match(target):
            match = _ABSOLUTE.match(target)
            if match is None or match[1] not in self.origins:
                return False
        return all(self._is_gate_host(base, value) for value in nested(target))

    def strangers(self, chromium: Chromium) -> list[tuple[str, str, str]]:
        """(base, target, where Chromium would go) of everything seen that lands elsewhere."""
        pairs = sorted(self.seen)
        script = "return arguments[0].map(([b, t]) => { try { return new URL(t, b).origin } catch (e) { return 'nowhere' } })"
        landed = chromium.driver.execute_script(script, [[_without_path(base), target] for base, target in pairs])
        return [(*pair, origin) for pair, origin in zip(pairs, landed, strict=True) if origin not in self.origins]


def nested(target: str) -> list[str]:
    """The URLs inside a URL of gate."""
    return [value for name, value in parse_qsl(urlsplit(target).query) if name in _NESTED and value]


def _without_path(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}/"
