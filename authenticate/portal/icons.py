"""Icons of applications: configured files, and built-in drawings."""

import hmac
from collections.abc import Iterable
from dataclasses import dataclass

from config.fields import image
from config.options import Options
from foundation.crypto.sealing import derive_keys
from foundation.values import WatchedFile

PATH = "/.gate/icons/"
_ENDINGS = {image.PNG: ".png", image.SVG: ".svg"}

# SVG paths in a 24 by 24 square; the names are those of config/routes/route_portal.py.
BUILTIN_ICON_PATHS = {
    "book": "M5 4h11a3 3 0 0 1 3 3v13H8a3 3 0 0 1-3-3zm0 13a3 3 0 0 1 3-3h11",
    "calendar": "M4 6h16v14H4zm0 4h16M8 3v4m8-4v4",
    "chart": "M4 4v16h16M8 16v-4m4 4V8m4 8v-6",
    "chat": "M4 5h16v11H10l-5 4v-4H4zm4 4h8m-8 3h5",
    "cloud": "M7 18a4 4 0 0 1-.5-8A6 6 0 0 1 18 9.5 4.3 4.3 0 0 1 17.5 18z",
    "code": "m8 7-5 5 5 5m8-10 5 5-5 5M14 4l-4 16",
    "database": "M5 6c0-4 14-4 14 0v12c0 4-14 4-14 0zm0 0c0 4 14 4 14 0M5 12c0 4 14 4 14 0",
    "files": "M8 3h8l4 4v10H8zM16 3v4h4M4 7v14h12",
    "globe": "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18zm-9 9h18M12 3c-6 6-6 12 0 18 6-6 6-12 0-18",
    "home": "m3 12 9-8 9 8M6 10v10h12V10m-8 10v-6h4v6",
    "mail": "M3 6h18v12H3zl9 7 9-7",
    "money": "M3 6h18v12H3zm9 3a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM6 9v.01M18 15v.01",
    "people": "M9 4a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7zM3 20c0-8 12-8 12 0m1-15.5a3.5 3.5 0 0 1 0 6.5m2 3.5c2 .8 3 2.5 3 5.5",
    "server": "M4 4h16v7H4zm0 9h16v7H4zm4-5.5v.01m0 8.99v.01",
    "settings": "M4 7h9m4 0h3M4 17h3m4 0h9M15 4.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5zm-6 10a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5z",
    "shield": "M12 3 5 6v5c0 5 3 8.5 7 10 4-1.5 7-5 7-10V6zm-3 9 2 2 4-4",
    "terminal": "M3 5h18v14H3zm4 4 3 3-3 3m5 0h5",
    "ticket": "M3 7h18v3a2 2 0 0 0 0 4v3H3v-3a2 2 0 0 0 0-4zm11 0v2m0 2v2m0 2v2",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ServedIcon:
    content: bytes
    media_type: str


class Icons:
    """Icon files of portal routes and providers, under unguessable names."""

    def __init__(self, options: Options):
        self._key = derive_keys(options.cookie_secret, "icon of the portal")[0]
        icons = (route.icon for route in options.policy if route.icon and route.is_in_portal)
        self._served = dict(self._iter_served((*icons, *(provider.icon for provider in options.providers.values()))))

    def _iter_served(self, icons: Iterable[object]) -> Iterable[tuple[str, ServedIcon]]:
        for icon in icons:
            if isinstance(icon, WatchedFile):
                yield self._name(icon), ServedIcon(icon.content, image.detect_image_type(icon.content))

    def _name(self, icon: WatchedFile) -> str:
        return hmac.digest(self._key, icon.content, "sha256").hex()[:32] + _ENDINGS[image.detect_image_type(icon.content)]

    def icon_source(self, icon: str | WatchedFile | None) -> tuple[str, str]:
        """Return (path of an icon file, SVG path of a built-in icon); at most one is not ""."""
        if isinstance(icon, WatchedFile):
            return self.path_for(icon), ""
        return "", BUILTIN_ICON_PATHS.get(icon or "", "")

    def path_for(self, icon: WatchedFile) -> str:
        return PATH + self._name(icon)

    def find(self, name: str) -> ServedIcon | None:
        return self._served.get(name)
