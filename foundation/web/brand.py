"""Brand: what each page of ours shows of whoever runs this gate; its accent is made readable in light and in dark (WCAG 2.2, 1.4.3)."""

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from foundation.web.message import Message

Channels = tuple[float, float, float]

ENOUGH = 4.5
_STEPS = 64
_GROUND = re.compile(r"--(?:paper|card): (#[0-9a-f]{6})")


def accent_style(accent: str, stylesheet: str) -> str:
    """Style after `stylesheet`, by which links and buttons have the accent.  On its grounds, light and then dark, the accent is text;
    on the accent a button's text has the colour of one of them."""
    light, dark = grounds(stylesheet)
    on_light, on_dark = readable(accent, light, "#000000"), readable(accent, dark, "#ffffff")
    return f":root {{ --brand: {on_light}; }}\n@media (prefers-color-scheme: dark) {{ :root {{ --brand: {on_dark}; }} }}\n"


def grounds(stylesheet: str) -> tuple[list[str], list[str]]:
    """What text stands on, in light and in dark."""
    found = _GROUND.findall(stylesheet)
    if len(found) != 4:
        raise ValueError("the stylesheet names no two grounds for light and for dark")
    return found[:2], found[2:]


def readable(colour: str, on: Sequence[str], towards: str) -> str:
    """Colour, or the nearest to it on the way `towards` another that has contrast enough with all of `on`."""
    tried = (_mixed(colour, towards, step / _STEPS) for step in range(_STEPS + 1))
    return next(each for each in tried if all(contrast(each, ground) >= ENOUGH for ground in on))


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in _channels(colour))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _channels(colour: str) -> Channels:
    red, green, blue = (int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5))
    return red, green, blue


def _mixed(one: str, other: str, share: float) -> str:
    mixed = (a + (b - a) * share for a, b in zip(_channels(one), _channels(other), strict=True))
    return "#" + "".join(f"{round(part * 255):02x}" for part in mixed)


NAME, ACCENT = "gate", "#2a4fd6"
STYLESHEET = (Path(__file__).parents[1] / "templates" / "gate.css").read_text()


def hash_source(inline: str) -> str:
    """CSP source (CSP 3, 2.3.1) of what stands in a page."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()}'"


@dataclass(frozen=True, slots=True)
class Brand:
    """Brand.  `logo` is a data: URL, empty for gate's shield; `style` is the CSP source of the one inline `stylesheet`."""

    name: str = NAME
    logo: str = ""
    accent: str = ACCENT
    stylesheet: str = STYLESHEET
    style: str = hash_source(STYLESHEET)

    @classmethod
    def of(cls, name: str, logo: str, accent: str | None) -> "Brand":
        if accent is None:
            return cls(name, logo)
        stylesheet = STYLESHEET + accent_style(accent, STYLESHEET)
        return cls(name, logo, accent, stylesheet, hash_source(stylesheet))


NO_BRAND = Brand()


Links = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class SiteFacts:
    """Site facts of the configuration in force.  `contact` is a mailto: or https: URL, `headers` are those of every answer of ours."""

    contact: str = ""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    brand: Brand = NO_BRAND

    def help_links(self, host: str, request_id: str) -> Links:
        """Whom to write to about this request, as links of a page; by mail with words that say which it was."""
        if not self.contact:
            return ()
        about = quote(f"Help with {host or 'this site'}, request {request_id}", safe="")
        return ((Message("Get help"), f"{self.contact}?subject={about}" if self.contact.startswith("mailto:") else self.contact),)


NO_SITE_FACTS = SiteFacts()
