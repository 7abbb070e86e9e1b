"""Brand: what each page of ours shows of whoever runs this gate."""

import base64
import hashlib
from dataclasses import dataclass
from pathlib import Path

from foundation.web.accent import accent_style

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
