"""Browser and operating system: their usual names."""

import pytest

from authenticate.portal.user_agent import UNKNOWN, describe_user_agent

MOZILLA = "Mozilla/5.0"


@pytest.mark.parametrize(
    ("user_agent", "text"),
    [
        (f"{MOZILLA} (Windows NT 10.0; Win64; x64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Windows"),
        (f"{MOZILLA} (Windows NT 10.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Safari/537.36 Edg/140.0", "Edge on Windows"),
        (f"{MOZILLA} (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 Version/18.0 Safari/605.1.15", "Safari on macOS"),
        (f"{MOZILLA} (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/140.0 Safari/537.36", "Chrome on Linux"),
        (f"{MOZILLA} (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 CriOS/140.0 Mobile Safari/604.1", "Chrome on iPhone"),
        (f"{MOZILLA} (iPad; CPU OS 18_0 like Mac OS X) AppleWebKit/605.1.15 Version/18.0 Mobile Safari/604.1", "Safari on iPad"),
        (f"{MOZILLA} (Linux; Android 15; SM-S921B) Chrome/140.0 SamsungBrowser/28.0 Mobile Safari/537.36", "Samsung Internet on Android"),
        (f"{MOZILLA} (X11; CrOS x86_64 14541.0.0) AppleWebKit/537.36 Chrome/140.0 Safari/537.36", "Chrome on ChromeOS"),
        (f"{MOZILLA} (Windows NT 10.0) Chrome/140.0 Safari/537.36 OPR/120.0", "Opera on Windows"),
        ("curl/8.5.0", "curl"),
        ("python-httpx/0.28", "Command-line client"),
        (f"{MOZILLA} (X11; Linux x86_64) Unheard/1.0", "A browser on Linux"),
        ("", UNKNOWN),
        ("<script>alert(1)</script>", UNKNOWN),
    ],
)
def test_describes_user_agents(user_agent: str, text: str) -> None:
    assert describe_user_agent(user_agent) == text
