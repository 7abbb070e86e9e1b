"""Redirect targets that have sent people to strangers: some thousand strings, made from a dozen ideas."""

from collections.abc import Iterator
from itertools import product
from urllib.parse import quote

EVIL = "evil.example"

# Characters that browsers strip, fold or parse as a slash (WHATWG URL, 4.4).
_IGNORED = ("", "\t", "\n", "\r", "\r\n", " ", "\x00", "\x0b", "\x1f", "\x7f", "\u00a0", "\u200b", "\u2028", "\ufeff")
_SLASHES = ("/", "//", "///", "////", "\\", "\\\\", "/\\", "\\/", "//\\", "/\\/", "/./", "/../", "/.//", "/..//", "/;/", ";//", ":/", "://")
_ESCAPED = ("%09", "%0a", "%0d", "%00", "%20", "%2f", "%5c", "%2f%2f", "%5c%5c", "%252f", "%E3%80%82", "%c0%af", "%u2215")
_SCHEMES = (
    "http", "https", "HTTPS", "hTTp", "ftp", "ws", "wss", "javascript", "JaVaScRiPt", "java\tscript", "data", "vbscript", "file", "blob",
    "about",
    "view-source", "mailto", "tel", "intent", "chrome", "x",
)  # fmt: skip
_SEPARATORS = (":", ":/", "://", ":///", ":\\\\", ":/\\", ";//", "//", ":////", ": //", ":\t//", "%3a//")
_USER_INFO = ("{ours}@{evil}", "{ours}:443@{evil}", "{ours}%40{evil}", "{ours}\\@{evil}", "a:b@{evil}", "@{evil}", "{ours}@@{evil}",
"{ours}#@{evil}",
              "{ours}?@{evil}", "{ours};@{evil}", "{ours}/@{evil}", "{evil}@{ours}", "{evil}\\@{ours}", "{evil}%00@{ours}",
              "{ours}%5c@{evil}")  # fmt: skip
_BORDERS = (
    ".",
    "-",
    "_",
    "%2e",
    "\u3002",
    "\uff0e",
    "%00",
    "\x00",
    "\t.",
    "\n.",
    "\\.",
    "/.",
    "#.",
    "?.",
    ";.",
    ",.",
    "&.",
    "|.",
    "[.",
    "'.",
    "%.",
)
_PORTS = (
    "",
    "0",
    "1",
    "80",
    "443",
    "0443",
    "443x",
    "-443",
    "443:443",
    "65535",
    "65536",
    "65979",
    "99999999999",
    "8443",
    "%34%34%33",
    " 443",
    "443 ",
    "٤٤٣",
)
_ADDRESSES = (
    "127.0.0.1", "127.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "017700000001", "127.0.0.1.", "0", "[::1]", "[::]",
    "[::ffff:127.0.0.1]",
    "[0:0:0:0:0:ffff:7f00:1]", "[::1%25eth0]", "[::1]:443", "[v1.x]", "[", "]", "[]", "169.254.169.254", "①②⑦.⓪.⓪.①", "localhost",
    "localhost.",
)  # fmt: skip
_LETTERS = ("а", "ａ", "ᴀ", "ⓐ", "á", "ä", "xn--", "ß", "ı", "K", "ﬀ", "\u00ad", "\u200d")
_SCRIPTS = (
    "javascript:alert(1)", "javascript://{ours}/%0aalert(1)", "javascript:%61lert(1)//{ours}", "\x01javascript:alert(1)",
    "javascript&colon;alert(1)",
    "data:text/html,<script>alert(1)</script>", "data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==", "data://{ours}/text/html,x",
    "blob:https://{ours}/x", "view-source:https://{ours}/", "about:blank", "file:///etc/passwd", "vbscript:msgbox(1)",
)  # fmt: skip
_MARKUP = (
    '"><script>alert(1)</script>',
    "'-alert(1)-'",
    "<img src=x onerror=alert(1)>",
    'https://{ours}/"onmouseover=alert(1)',
    "https://{ours}/<b>",
)
_HEADERS = (
    "/\r\nSet-Cookie: evil=1",
    "/%0d%0aLocation:%20https://{evil}",
    "/\nLocation: https://{evil}",
    "/\r\n\r\n<script>alert(1)</script>",
    "/é\r\nX: y",
)


def corpus(from_gate: str, *others: str) -> list[str]:
    """`from_gate` is the authority (host:port) of a route, `others` those of more hosts; each string once, in a fixed order."""
    return list(dict.fromkeys([*_all(from_gate), *(text for other in others for text in _sibling_origins(other))]))


def _sibling_origins(from_gate: str) -> Iterator[str]:
    """The same host under another port or scheme is another origin."""
    host = from_gate.partition(":")[0]
    yield from (f"{scheme}://{host}:{port}/" for scheme, port in product(("http", "https"), _PORTS))
    yield from (
        f"http://{from_gate}/",
        f"https://{host}/",
        f"https://sub.{from_gate}/",
        f"https://{from_gate}.{EVIL}/",
        f"https://{from_gate}@{EVIL}/",
    )


def _all(from_gate: str) -> Iterator[str]:
    names = {"ours": from_gate, "evil": EVIL}
    host = from_gate.partition(":")[0]
    for slashes, ignored in product(_SLASHES, _IGNORED):
        yield f"{slashes}{ignored}{EVIL}"
        yield f"{ignored}{slashes}{EVIL}"
        if len(slashes) > 1:
            yield f"{slashes[0]}{ignored}{slashes[1:]}{EVIL}"
    for slashes, escaped in product(("", "/", "//"), _ESCAPED):
        yield f"{slashes}{escaped}{EVIL}"
        yield f"{slashes}{escaped}/{EVIL}"
        yield f"https://{from_gate}{escaped}{EVIL}"
        yield f"https://{from_gate}{escaped}@{EVIL}"
    for scheme, separator in product(_SCHEMES, _SEPARATORS):
        yield f"{scheme}{separator}{EVIL}"
        yield f"{scheme}{separator}{from_gate}"
    yield from (f"{scheme}{text.format(**names)}/" for scheme, text in product(("https://", "//", "http://"), _USER_INFO))
    yield from (f"https://{from_gate}{border}{EVIL}/" for border in _BORDERS)
    yield from (f"https://{EVIL}{border}{from_gate}/" for border in _BORDERS)
    yield from (f"https://{host}:{port}/" for port in _PORTS)
    yield from (f"{scheme}://{address}/" for scheme, address in product(("https", "http", ""), _ADDRESSES))
    yield from (f"https://{letter}{from_gate[len(letter) :]}/" for letter in _LETTERS)
    yield from (f"https://{from_gate}/{ignored}" for ignored in _IGNORED)
    yield from (f"{ignored}https://{from_gate}{ignored}.{EVIL}/" for ignored in _IGNORED)
    for text in (*_SCRIPTS, *_MARKUP, *_HEADERS):
        yield text.format(**names)
        yield quote(text.format(**names), safe="")
    yield from (
        f"https://{from_gate}{tail}"
        for tail in (".", "./", "../", "/..//" + EVIL, "/../" + EVIL, "//" + EVIL, "/\\" + EVIL, "?" + EVIL, "#@" + EVIL)
    )
    yield from (
        "",
        "/",
        "?",
        "#",
        ".",
        "..",
        "null",
        "undefined",
        EVIL,
        from_gate,
        "https",
        "https://",
        "https:",
        "//",
        "//[",
        "https://[",
        "https://" + "a" * 9000,
    )
    yield from (
        f"https://{from_gate}/" + "a" * 70_00,
        f"https://{'a' * 300}.{EVIL}/",
        "/" * 3000 + EVIL,
        "\\" * 500 + EVIL,
        f"https://{from_gate}" + "@" * 500 + EVIL,
    )


def in_query(text: str) -> str:
    """As a query carries it, byte for byte after decoding."""
    return quote(text, safe="", errors="surrogatepass")


def as_path(text: str) -> str:
    """As an HTTP/1.1 request target can carry it: what would end the line is encoded, everything else stays raw."""
    path = quote(text, safe="!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
    return path if path.startswith("/") else f"/{path}"
