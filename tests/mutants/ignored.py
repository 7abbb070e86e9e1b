"""Generated mutants that no test has to notice, by module: the key of each, and why.

A mutant is here where the product does the same without it, only slower, or only in other words.  A test must notice all others.
"""

CACHE = "it spares work, and nothing else changes"

IGNORED: dict[str, dict[str, str]] = {
    "foundation.crypto.session_cookie": {
        "SessionCookies.counting never _ is not None and _ < _": CACHE,
        "SessionCookies.counting never _": CACHE,
        "SessionCookies.counting skips _()": CACHE,
        "SessionCookies._counting never not _ #2": "without sessions there is none with a companion, either",
        "SessionCookies._opened_of always _() >= _": "shorter values don't open",
    },
}
