"""Applications of the demo, in one process with a loopback port for each.

`python -m examples.demo.upstreams --issuer HOST[:PORT] --ca FILE` prints one JSON line with the ports once it listens.
"""

import argparse
import asyncio
import contextlib
import hashlib
import json
import re
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import jinja2
from aiohttp import web

from examples.demo.assertion import HEADER, AssertionVerifier, Verdict
from examples.demo.chat import Room
from examples.demo.notes import Notes
from examples.demo.people import ECHO, SITES, Site

TEMPLATES = Path(__file__).parent / "templates"
UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
MAX_DOWNLOAD_BYTES = 10 * 2**30
BLOCK = bytes(range(256)) * 256
PING = "/upstream-ping"
VERDICT = web.RequestKey("verdict", Verdict)
SECRETS = ("cookie", "authorization")
CLAIM_MEANINGS = {
    "iss": "issuer",
    "aud": "application",
    "jti": "session",
    "iat": "signed in",
    "exp": "valid until",
    "sub": "user id",
}


class Application:
    """One site: its page, and what its visitors' assertions are worth."""

    def __init__(self, site: Site, issuer: str, ca_file: Path):
        self.site = site
        port = issuer.partition(":")[2]
        self.base = f":{port}" if port else ""
        self.verifier = AssertionVerifier(issuer, ca_file)
        self.room = Room()
        self.notes = Notes()
        self._templates = jinja2.Environment(
            loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True, lstrip_blocks=True
        )
        self._templates.filters["clock"] = lambda seconds: time.strftime("%d %B %Y, %H:%M:%S UTC", time.gmtime(seconds))

    @web.middleware
    async def authorize(self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> web.StreamResponse:
        """An application that relies on gate serves nothing that did not come through gate; `hello` is there to explain, so it does."""
        verdict = request[VERDICT] = await self.verifier.verify(request.headers.get(HEADER, ""), self.site.host + self.base)
        relies_on_gate = self.site.passes_identity and self.site.name != "hello"
        if relies_on_gate and not verdict.is_verified and request.path != PING:
            return self.rendered(request, status=403)
        return await handler(request)

    async def page(self, request: web.Request) -> web.Response:
        return self.rendered(request, status=200)

    async def talk(self, request: web.Request) -> web.WebSocketResponse:
        return await self.room.visit(request, request[VERDICT])

    async def respond_to_agent(self, request: web.Request) -> web.Response:
        return await self.notes.respond(request, request[VERDICT])

    def rendered(self, request: web.Request, status: int) -> web.Response:
        html = self._templates.get_template(f"{self.site.name}.html").render(
            site=self.site,
            base=self.base,
            request=request,
            verdict=request[VERDICT],
            headers=displayed_headers(request),
            meanings=CLAIM_MEANINGS,
            notes=self.notes.by_number,
        )
        return web.Response(text=html, content_type="text/html", status=status, headers={"Cache-Control": "no-store"})

    async def as_json(self, request: web.Request) -> web.Response:
        verdict: Verdict = request[VERDICT]
        return web.json_response(
            {
                "method": request.method,
                "path": request.raw_path,
                "headers": [list(pair) for pair in request.headers.items()],
                "assertion": {"verified": verdict.is_verified, "problem": verdict.problem, "claims": verdict.claims},
            }
        )


def displayed_headers(request: web.Request) -> list[tuple[str, str]]:
    """gate's own first, then the others as they came."""
    displayed = [(name, "(not shown on a page)" if name.lower() in SECRETS else value) for name, value in request.headers.items()]
    return sorted(displayed, key=lambda pair: not pair[0].lower().startswith("x-gate-"))


async def download(request: web.Request) -> web.StreamResponse:
    """`?size=100MB` bytes of a fixed pattern, generated as fast as they are read."""
    try:
        size = parsed_size(request.query.get("size", "100MB"))
    except ValueError as error:
        raise web.HTTPBadRequest(text=f"{error}\n") from error
    response = web.StreamResponse(
        headers={
            "Content-Type": "application/octet-stream",
            "Content-Length": str(size),
            "Content-Disposition": f'attachment; filename="sample-{size}.bin"',
        }
    )
    await response.prepare(request)
    if request.method == "HEAD":
        return response
    complete, rest = divmod(size, len(BLOCK))
    for _ in range(complete):
        await response.write(BLOCK)
    await response.write(BLOCK[:rest])
    return response


async def upload(request: web.Request) -> web.Response:
    """Counts and hashes the body as it arrives; keeps nothing."""
    digest, size, started = hashlib.sha256(), 0, time.monotonic()
    async for chunk in request.content.iter_chunked(2**18):
        digest.update(chunk)
        size += len(chunk)
    return web.json_response({"bytes": size, "sha256": digest.hexdigest(), "seconds": round(time.monotonic() - started, 3)})


def parsed_size(text: str) -> int:
    """`250`, `100MB` or `1GiB` in bytes.  Raises ValueError."""
    match = re.fullmatch(r"([0-9]{1,12})\s*([a-z]*)", text.strip(), re.IGNORECASE)
    if match is None or match[2].upper() not in UNITS:
        raise ValueError(f"size is a number with one of {', '.join(filter(None, UNITS))} or none, not {text[:40]!r}")
    size = int(match[1]) * UNITS[match[2].upper()]
    if size > MAX_DOWNLOAD_BYTES:
        raise ValueError("size is at most 10GiB")
    return size


async def script(request: web.Request) -> web.FileResponse:
    return web.FileResponse(TEMPLATES / request.path[1:], headers={"Cache-Control": "no-store"})


async def ping(request: web.Request) -> web.Response:
    return web.Response(text="upstream\n")


def web_application(site: Site, issuer: str, ca_file: Path) -> web.Application:
    application = Application(site, issuer, ca_file)
    routes: list[tuple[str, str, Callable[[web.Request], Awaitable[web.StreamResponse]]]] = [
        ("GET", PING, ping),
        ("*", "/headers.json", application.as_json),
    ]
    if site.name == "files":
        routes += [("GET", "/download", download), ("*", "/upload", upload), ("GET", "/files.js", script)]
    if site.name == "chat":
        routes += [("GET", "/talk", application.talk), ("GET", "/chat.js", script)]
    if site.name == "notes":
        routes += [("POST", "/mcp", application.respond_to_agent)]
    web_app = web.Application(middlewares=[application.authorize])
    for method, path, handler in (*routes, ("*", "/{rest:.*}", application.page)):
        web_app.router.add_route(method, path, handler)
    web_app.on_shutdown.append(lambda _: application.room.close())
    web_app.on_cleanup.append(lambda _: application.verifier.close())
    return web_app


async def echo_back(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Upstream of the TCP route: echoes what it receives."""
    with contextlib.suppress(OSError):
        while data := await reader.read(UNITS["KIB"] * 64):
            writer.write(data)
            await writer.drain()
    writer.close()


async def serve(issuer: str, ca_file: Path) -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)

    async with contextlib.AsyncExitStack() as stack:
        ports = {}
        for site in SITES:
            runner = web.AppRunner(web_application(site, issuer, ca_file), access_log=None, shutdown_timeout=1)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            ports[site.name] = runner.addresses[0][1]
        echo = await asyncio.start_server(echo_back, "127.0.0.1", 0)
        stack.callback(echo.close)
        ports[ECHO] = echo.sockets[0].getsockname()[1]
        print(json.dumps(ports), flush=True)
        await stopping.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--issuer", required=True, help="the authenticate host, with its port unless 443")
    parser.add_argument("--ca", required=True, type=Path, help="the authority that vouches for it")
    arguments = parser.parse_args()
    asyncio.run(serve(arguments.issuer, arguments.ca))


if __name__ == "__main__":
    main()
