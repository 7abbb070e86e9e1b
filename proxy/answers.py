"""The answers that we give ourselves, without Django: small pages, errors, and refusals, each in the form its client reads."""

from collections.abc import Iterable

from gateproject import pages
from gateproject.challenges import owed
from gateproject.errors import BrokerError
from proxy.incoming import Incoming, Send

Headers = list[tuple[bytes, bytes]]

# RFC 9110 to gRPC status, as the gRPC documentation "HTTP to gRPC Status Code Mapping" gives it, with 403 and 401 exact.
GRPC_STATUS = {400: 13, 401: 16, 403: 7, 404: 12, 429: 14, 495: 7, 502: 14, 503: 14, 504: 4}


async def send_response(send: Send, status: int, headers: Headers, body: bytes, *, head_only: bool = False) -> None:
    headers = [*headers, *owed(status, [name for name, _ in headers]), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if head_only else body})


async def send_text(
    incoming: Incoming, send: Send, status: int, text: str, *, content_type: str = "text/plain", is_for_now: bool = False
) -> None:
    """`is_for_now`: it says how things are at this moment, so nothing on the way may keep it."""
    headers = [(b"content-type", content_type.encode()), (b"x-content-type-options", b"nosniff"), *incoming.own_headers]
    headers += [(b"cache-control", b"no-store")] if is_for_now else []
    await send_response(send, status, headers, text.encode(), head_only=incoming.is_head)


async def send_redirect(
    incoming: Incoming,
    send: Send,
    location: str,
    *,
    status: int = 302,
    set_cookies: Iterable[str] = (),
    extra_headers: Iterable[tuple[bytes, bytes]] = (),
) -> None:
    headers = [(b"location", location.encode("ascii")), (b"cache-control", b"no-store"), (b"content-type", b"text/plain")]
    headers += [(b"set-cookie", cookie.encode("ascii")) for cookie in set_cookies]
    headers += extra_headers
    headers += [pair for pair in incoming.own_headers if pair not in headers]
    await send_response(send, status, headers, b"", head_only=incoming.is_head)


async def send_error(
    incoming: Incoming,
    send: Send,
    status: int,
    reason: str,
    *,
    advice: str = "",
    links: tuple[tuple[str, str], ...] = (),
    extra_headers: Headers | None = None,
) -> None:
    """HTML, JSON or text by what the client accepts; a gRPC client gets a trailers-only response."""
    incoming.told = reason
    if incoming.is_grpc:
        await send_grpc_error(send, status, reason, extra_headers or [])
        return
    accept = "application/json" if incoming.is_script else incoming.header(b"accept") or "text/plain" * incoming.is_connect
    content_type, body = pages.error_response(status, reason, incoming.request_id, accept, advice=advice, links=links)
    headers = [(name.lower().encode(), value.encode()) for name, value in pages.headers()]
    headers += [(b"content-type", content_type.encode()), (b"x-request-id", incoming.request_id.encode()), (b"vary", b"Accept")]
    headers += [*incoming.own_headers, *(extra_headers or ())]
    await send_response(send, status, headers, body, head_only=incoming.is_head)


def retry_after(error: BrokerError) -> Headers:
    return [(b"retry-after", str(error.retry_after).encode())]


async def send_unknown_address(incoming: Incoming, send: Send, *, has_tunnels: bool = False) -> None:
    """For a host, or a path of it, that no route has."""
    reason, advice = "No application is configured at this address.", "Check the address for a typo."
    if has_tunnels and not incoming.is_connect:
        reason, advice = "This address carries TCP, not web pages.", f"Connect with `manage.py tunnel {incoming.request.host}:PORT`."
    await send_error(incoming, send, 404, reason, advice=advice)


async def send_grpc_error(send: Send, status: int, reason: str, extra_headers: Headers) -> None:
    """gRPC over HTTP/2 "Trailers-Only": status 200, the outcome in headers, beside those that an answer of `status` has."""
    message = reason.encode("ascii", "replace").replace(b"%", b"%25")
    headers = [
        (b"content-type", b"application/grpc"),
        (b"grpc-status", str(GRPC_STATUS.get(status, 2)).encode()),
        (b"grpc-message", message),
        *extra_headers,
        *owed(status, [name for name, _ in extra_headers]),
    ]
    await send_response(send, 200, headers, b"")
