"""Renderer of gate's responses without Django: small pages, redirects and denials, in the format that the client accepts."""

from collections.abc import Iterable

from config.options import Options
from foundation.auth_challenges import missing_headers
from foundation.web import pages
from foundation.web.asgi_types import AsgiMessage, Header, Headers, Send, respond
from foundation.web.languages import preferred_language
from foundation.web.problem_details import PROBLEM, is_api_path
from proxy.incoming_request import IncomingRequest
from proxy.responses.rpc_errors import rpc_error
from proxy.sign_in.sign_in_urls import SignInUrls
from proxy.verdict import Deny, Redirect, SignIn

# gRPC status by HTTP status, after "HTTP to gRPC Status Code Mapping" of the gRPC documentation.  504 is DEADLINE_EXCEEDED here.
GRPC_STATUS = {400: 13, 401: 16, 403: 7, 404: 12, 429: 14, 495: 7, 502: 14, 503: 14, 504: 4}


async def send_response(send: Send, status: int, headers: Headers, body: bytes, *, head_only: bool = False) -> None:
    """Send a response with the headers that its status requires."""
    await respond(send, status, [*headers, *missing_headers(status, [name for name, _ in headers])], body, head_only=head_only)


async def send_text(
    incoming: IncomingRequest, send: Send, status: int, text: str, *, content_type: str = "text/plain", no_store: bool = False
) -> None:
    """Send a plain-text response.  With `no_store` no cache may store it, because it describes this moment."""
    headers = [(b"content-type", content_type.encode()), (b"x-content-type-options", b"nosniff"), *incoming.site.headers]
    headers += [(b"cache-control", b"no-store")] if no_store else []
    await send_response(send, status, headers, text.encode(), head_only=incoming.is_head)


async def send_redirect(
    incoming: IncomingRequest,
    send: Send,
    location: str,
    *,
    status: int = 302,
    set_cookies: Iterable[str] = (),
    extra_headers: Iterable[Header] = (),
) -> None:
    headers = [(b"location", location.encode("ascii")), (b"cache-control", b"no-store"), (b"content-type", b"text/plain")]
    headers += [(b"set-cookie", cookie.encode("ascii")) for cookie in set_cookies]
    headers += extra_headers
    headers += [pair for pair in incoming.site.headers if pair not in headers]
    await send_response(send, status, headers, b"", head_only=incoming.is_head)


async def send_denial(incoming: IncomingRequest, denial: Deny, send: Send) -> int:
    """Send a denial as HTML, JSON or text, by Accept, as a trailers-only gRPC response, or as a JSON-RPC error.

    Return the denial's HTTP status.
    """
    incoming.response_reason, status = denial.reason, denial.status
    if incoming.is_grpc:
        await send_grpc_error(send, status, denial.reason, denial.headers)
        return status
    accept = "application/json" if incoming.is_script_request else incoming.header(b"accept") or "text/plain" * incoming.is_connect
    # The raw path, because the path itself may be invalid.
    accept = PROBLEM if is_api_path((incoming.scope.get("raw_path") or b"").decode("latin-1")) else accept
    brand, help_links = incoming.site.brand, incoming.site.help_links(incoming.request.host_port, incoming.request_id)
    content_type, body = pages.error_response(
        status,
        denial.reason,
        incoming.request_id,
        accept,
        language=preferred_language(incoming.header(b"accept-language")),
        advice=denial.advice,
        links=denial.links,
        help_links=help_links,
        brand=brand,
    )
    if incoming.is_mcp and not incoming.is_navigation:
        content_type, body = "application/json", rpc_error(denial, incoming.rpc_id, incoming.request_id)
    headers = [(name.lower().encode(), value.encode()) for name, value in pages.security_headers(style=brand.style)]
    headers += [(b"content-type", content_type.encode()), (b"x-request-id", incoming.request_id.encode())]
    headers += [(b"vary", pages.vary_header(content_type).encode()), *incoming.site.headers, *denial.headers]
    await send_response(send, status, headers, body, head_only=incoming.is_head)
    return status


class VerdictRenderer:
    """Renderer of verdicts that do not forward the request."""

    def __init__(self, options: Options):
        self.sign_in_urls = SignInUrls(options)

    async def send(
        self, incoming: IncomingRequest, verdict: SignIn | Deny | Redirect, send: Send, now: float, added: Iterable[Header] = ()
    ) -> int:
        """Send the response of a verdict; a redirect has the `added` headers.  Return its status."""
        match verdict:
            case Deny():
                return await send_denial(incoming, verdict, send)
            case Redirect():
                await send_redirect(incoming, send, verdict.location, status=verdict.status, extra_headers=added)
                return verdict.status
        form = verdict.form
        location, cookies = self.sign_in_urls.start(incoming, verdict.scheme, now, verdict.route, return_path=form.path if form else "")
        await send_redirect(incoming, send, location, set_cookies=[*cookies, form.set_cookie] if form else cookies)
        return 302


async def send_grpc_error(send: Send, status: int, reason: str, extra_headers: Headers) -> None:
    """Send a trailers-only gRPC response over HTTP/2: status 200, the gRPC status in headers, and the headers that `status` requires."""
    message = reason.encode("ascii", "replace").replace(b"%", b"%25")
    headers = [
        (b"content-type", b"application/grpc"),
        (b"grpc-status", str(GRPC_STATUS.get(status, 2)).encode()),
        (b"grpc-message", message),
        *extra_headers,
        *missing_headers(status, [name for name, _ in extra_headers]),
    ]
    await send_response(send, 200, headers, b"")


class CapturedResponse:
    """ASGI `send` that stores the response, for a caller that sends it over another protocol."""

    def __init__(self) -> None:
        self.status = 500
        self.headers: Headers = []
        self.body = b""

    async def __call__(self, message: AsgiMessage) -> None:
        if message["type"] == "http.response.start":
            self.status, self.headers = message["status"], message["headers"]
        else:
            self.body += message.get("body", b"")
