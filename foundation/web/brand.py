"""Brand of gate's pages: name, logo, and an accent colour adjusted for contrast in light and dark mode (WCAG 2.2, 1.4.3)."""

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from foundation.web.message import Message

Channels = tuple[float, float, float]

MIN_CONTRAST = 4.5
_STEPS = 64
_BACKGROUND = re.compile(r"--(?:paper|card): (#[0-9a-f]{6})")


def accent_style(accent: str, stylesheet: str) -> str:
    """Return the style to append to `stylesheet` for links and buttons in the accent colour.

    The accent is adjusted for text on the backgrounds of `stylesheet`, in light and dark mode.
    """
    light, dark = backgrounds(stylesheet)
    on_light, on_dark = adjust_for_contrast(accent, light, "#000000"), adjust_for_contrast(accent, dark, "#ffffff")
    return f":root {{ --brand: {on_light}; }}\n@media (prefers-color-scheme: dark) {{ :root {{ --brand: {on_dark}; }} }}\n"


def backgrounds(stylesheet: str) -> tuple[list[str], list[str]]:
    """Return the background colours of text, in light and in dark mode."""
    colours = _BACKGROUND.findall(stylesheet)
    if len(colours) != 4:
        raise ValueError("the stylesheet must have two backgrounds each for light and dark mode")
    return colours[:2], colours[2:]


def adjust_for_contrast(colour: str, on: Sequence[str], towards: str) -> str:
    """Return the colour, mixed with `towards` until it has enough contrast with all backgrounds `on`."""
    tried = (_mix(colour, towards, step / _STEPS) for step in range(_STEPS + 1))
    return next(each for each in tried if all(contrast(each, ground) >= MIN_CONTRAST for ground in on))


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in _channels(colour))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _channels(colour: str) -> Channels:
    red, green, blue = (int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5))
    return red, green, blue


def _mix(one: str, other: str, share: float) -> str:
    mixed = (a + (b - a) * share for a, b in zip(_channels(one), _channels(other), strict=True))
    return "#" + "".join(f"{round(part * 255):02x}" for part in mixed)


NAME, ACCENT = "gate", "#2a4fd6"
STYLESHEET = (Path(__file__).parents[1] / "templates" / "gate.css").read_text()


def csp_hash(inline: str) -> str:
    """Return the CSP hash source of an inline style or script (CSP 3, 2.3.1)."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(inline.encode()).digest()).decode()}'"


@dataclass(frozen=True, slots=True)
class Brand:
    """Brand. `logo` is a data: URL, empty for gate's shield; `style` is the CSP source of the inline `stylesheet`."""

    name: str = NAME
    logo: str = ""
    accent: str = ACCENT
    stylesheet: str = STYLESHEET
    style: str = csp_hash(STYLESHEET)

    @classmethod
    def from_options(cls, name: str, logo: str, accent: str | None) -> "Brand":
        if accent is None:
            return cls(name, logo)
        stylesheet = STYLESHEET + accent_style(accent, STYLESHEET)
        return cls(name, logo, accent, stylesheet, csp_hash(stylesheet))


NO_BRAND = Brand()


Links = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class SiteInfo:
    """Site-wide values of the active configuration.

    `contact` is a mailto: or https: URL; `headers` are added to every response that gate generates.
    """

    contact: str = ""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    brand: Brand = NO_BRAND

    def help_links(self, host: str, request_id: str) -> Links:
        """Return the support link of a page; a mail link has a subject that names the request."""
        if not self.contact:
            return ()
        about = quote(f"Help with {host or 'this site'}, request {request_id}", safe="")
        return ((Message("Get help"), f"{self.contact}?subject={about}" if self.contact.startswith("mailto:") else self.contact),)


EMPTY_SITE_INFO = SiteInfo()
