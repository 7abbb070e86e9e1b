"""Browser and system from the User-Agent header, for display only: clients can send any value."""

import re

from foundation.web.message import Message

# The first match wins, because most browsers also include the names of others.
_BROWSERS = (
    (r"Edg(?:e|A|iOS)?/", "Edge"),
    (r"OPR/|Opera|OPiOS/", "Opera"),
    (r"SamsungBrowser/", "Samsung Internet"),
    (r"Vivaldi/", "Vivaldi"),
    (r"YaBrowser/", "Yandex Browser"),
    (r"DuckDuckGo/|Ddg/", "DuckDuckGo"),
    (r"Firefox/|FxiOS/", "Firefox"),
    (r"Chrome/|CriOS/|Chromium/", "Chrome"),
    (r"Safari/", "Safari"),
    (r"^curl/", "curl"),
    (r"^Wget/", "Wget"),
    (r"^python|aiohttp|^Go-http-client|^okhttp|^Java", Message("Command-line client")),
)
_SYSTEMS = (
    (r"iPhone|iPod", "iPhone"),
    (r"iPad", "iPad"),
    (r"Android", "Android"),
    (r"CrOS", "ChromeOS"),
    (r"Windows", "Windows"),
    (r"Macintosh|Mac OS X", "macOS"),
    (r"Linux|X11", "Linux"),
)
UNKNOWN = Message("Unknown browser")


def describe_user_agent(user_agent: str) -> str:
    """Return a description such as `Firefox on Windows`."""
    browser, system = (next((name for pattern, name in names if re.search(pattern, user_agent)), "") for names in (_BROWSERS, _SYSTEMS))
    if not browser:
        return Message("A browser on %(system)s", system=system) if system else UNKNOWN
    return Message("%(browser)s on %(system)s", browser=browser, system=system) if system else browser
