"""Cookie headers as browsers send them: the session cookie of a host, and its binding cookie."""

from collections.abc import Mapping

import httpx

from foundation.crypto.session_cookie import SessionCookies

SESSION, BINDING = "_gate", "__Host-_gate"


def cookie_header(set_cookies: list[str]) -> str:
    """Return the value of the Cookie header after these Set-Cookie values."""
    return "; ".join(each.partition(";")[0] for each in set_cookies)


def signed_in(cookies: SessionCookies, session_id: str, host_port: str, *, issued: float, expires: float) -> str:
    """Return the Cookie header that the browser of a live session sends to this host."""
    return cookie_header(cookies.set_cookies(session_id, host_port, issued_at=issued, expires_at=expires, now=issued))


def client_cookies(client: httpx.AsyncClient, host: str) -> str:
    """Return the cookies of a client for `host` (without a port)."""
    found = {each.name: each.value for each in client.cookies.jar if each.domain == host and each.name in (SESSION, BINDING)}
    return of_jar({name: value or "" for name, value in found.items()})


def gate_values(client: httpx.AsyncClient, host: str) -> bytes:
    """Return the values of `_gate` in a Cookie header: the session cookie and the binding cookie."""
    return client_cookies(client, host).removeprefix(f"{SESSION}=").encode()


def of_jar(jar: Mapping[str, str]) -> str:
    return f"{SESSION}={jar[SESSION]}; {BINDING}={jar[BINDING]}"
