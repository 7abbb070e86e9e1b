"""The product under attack: started once, in front of canaries that keep every byte, with people already signed in.

with Target.start() as target:              # plain TCP (insecure_server); Target.start(tls=True) for the TLS run
    marker = new_marker()                   # b"EVIL-...", unique; put one into every request
    head = target.request(b"GET", b"/x", "group", person="carol", marker=marker)
    answer = await target.send(head)        # raw bytes in, everything that came back out
    answer.statuses                         # [403]
    target.ledger.hits(marker)              # what any upstream saw of it

Each attack is a generator of cases in a separate module; run.py says how to write one.

People: alice (group engineering: allowed everywhere), carol (no group: refused where a group is asked for), None (no session).
Sites, each `<name>.localhost` (`target.host(name)` gives `name.localhost:port`), with the canary of the same name unless said:

group     allowed_groups engineering, identity headers                any       any signed-in person, identity headers
bare      any signed-in person, no identity headers                   public    everybody, identity headers
mixed     /admin, /exact (path), /re/<letters>/private (regex): group engineering -> canary "secret"; the rest public -> "open"
inverse   /public/: everybody -> "open"; the rest group engineering -> "secret"
layout<n> the layouts of tests/support/route_layouts.py: what is open to everybody -> "open", the rest group engineering -> "secret"
cors      group engineering with cors_allow_preflight                 rewrite   /api/, /cut -> /base/ (prefix_rewrite), /to/ -> /deep/to/
redirect  redirect routes, no canary                                  hostile   everybody; attacks fill `canary.scripts`; timeout 1 s
setter    everybody, with set_request_headers                         default   any signed-in person, at the default port (no port in Host)
elsewhere any signed-in person at any.localhost on another port, for which no user has a cookie

Port 5432 of group and public is a route for TCP (CONNECT) to the same canary, for the same people.
"""

import asyncio
import os
import re
import secrets
import ssl
import tempfile
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.attack.http_canary import Canary, CanaryServer, Ledger
from tests.attack.http_responses import Response, split_responses
from tests.attack.patience import Others, read_all
from tests.support.certs import CertificateFiles
from tests.support.cookies import gate_values
from tests.support.development_provider import DevelopmentProvider
from tests.support.gate import EverythingOnLoopback, GateBuilder, RunningGate, follow, sign_in
from tests.support.route_layouts import LAYOUTS

ENGINEERS = {"allowed_groups": ["engineering"]}
ANY_USER = {"allow_any_authenticated_user": True}
ALL_USERS = {"allow_public_unauthenticated_access": True}
IDENTITY = {"pass_identity_headers": True}
PEOPLE = ("alice", "carol")
CANARIES = ("group", "any", "bare", "public", "secret", "open", "cors", "rewrite", "hostile", "setter", "default", "elsewhere")
ELSEWHERE_PORT = 9443
TUNNEL_PORT = 5432
READ_LIMIT, IDLE_LIMIT = 2.0, 6.0  # seconds
HANDSHAKES = 16  # at once
BEAT = b"EVIL-" + b"0" * 12  # the marker of what belongs to no attack
FORWARD_AUTH_HOST = "forward.localhost"
TRUSTED_ADDRESS = "127.0.0.2"  # from which only the attacks on forward auth connect
LAYOUT_SITES = {f"layout{number}": layout for number, layout in enumerate(LAYOUTS.values())}
JWT_CLAIMS = ["email", "groups", "nickname"]  # no user has a nickname: its header must stay absent


def new_marker() -> bytes:
    return b"EVIL-" + secrets.token_hex(6).encode()


@dataclass(frozen=True)
class Answer:
    """Everything that came back on one connection."""

    raw: bytes
    is_closed: bool
    methods: tuple[bytes, ...] = ()

    @property
    def responses(self) -> list[Response]:
        """Raises Garbled where the bytes are no sequence of whole responses."""
        return split_responses(self.raw, self.methods, is_closed=self.is_closed)

    @property
    def statuses(self) -> list[int]:
        return [response.status for response in self.responses]


class Target:
    def __init__(self, gate: RunningGate, canaries: dict[str, Canary], ledger: Ledger, tls: ssl.SSLContext | None):
        self.gate, self.canaries, self.ledger, self.tls = gate, canaries, ledger, tls
        self.port = gate.port
        self.pid = gate.child.process.pid
        self.cookies: dict[str, dict[str, bytes]] = {}
        self.bindings: dict[bytes, bytes] = {}
        self._others = Others(self._ask_for_another)
        self._handshakes: tuple[asyncio.AbstractEventLoop, asyncio.Semaphore] | None = None

    @classmethod
    def start(cls, *, tls: bool = False, **settings: Any) -> "_Starting":
        """`settings` are added to the configuration."""
        return _Starting(tls, settings)

    def host(self, site: str) -> str:
        special = {"elsewhere": f"any.localhost:{ELSEWHERE_PORT}", "default": "default.localhost"}
        return special.get(site) or f"{site}.localhost:{self.port}"

    def cookie(self, user: str | None, site: str) -> bytes:
        """The Cookie header's value of that person's browser at that site; empty without a user."""
        return self.whole(self.cookies[user][site]) if user else b""

    def whole(self, value: bytes) -> bytes:
        """The session cookie of this value, and its binding cookie where it has one."""
        binding = self.bindings.get(value)
        return b"_gate=" + value + (b"; __Host-_gate=" + binding if binding else b"")

    def request(
        self,
        method: bytes,
        path: bytes,
        site: str,
        *,
        user: str | None = None,
        marker: bytes | None = None,
        headers: bytes = b"",
        body: bytes = b"",
        close: bool = True,
        host: bytes | None = None,
        accept: bytes = b"Accept: text/html\r\n",
    ) -> bytes:
        """One well-formed request, apart from what the arguments put into it.  `headers` are raw lines, each with its CR LF.

        `accept`: without it a stranger gets a 401 instead of a redirect to the sign-in.
        """
        lines = [b"%b %b HTTP/1.1\r\nHost: %b\r\n" % (method, path, self.host(site).encode() if host is None else host)]
        lines += [b"X-Marker: %b\r\n" % marker] if marker else []
        lines += [b"Cookie: %b\r\n" % self.cookie(user, site)] if user else []
        lines += [b"Content-Length: %d\r\n" % len(body)] if body else []
        lines += [b"Connection: close\r\n"] if close else []
        if not re.search(rb"(?i)^accept\s*:", headers, re.MULTILINE):
            lines += [accept]
        return b"".join([*lines, headers, b"\r\n", body])

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self.tls is None:
            return await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 24)
        # Hundreds of handshakes at once would take this process, not gate, longer than timeout_read.
        async with self._few_handshakes():
            return await asyncio.open_connection(
                "127.0.0.1", self.port, ssl=self.tls, server_hostname="authenticate.localhost", limit=1 << 24
            )

    def _few_handshakes(self) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        if self._handshakes is None or self._handshakes[0] is not loop:
            self._handshakes = loop, asyncio.Semaphore(HANDSHAKES)
        return self._handshakes[1]

    async def send(
        self, *writes: bytes, methods: tuple[bytes, ...] = (), wait: float = 30.0, quiet: float | None = None, pause: float = 0.0
    ) -> Answer:
        """Send each part in a separate write, `pause` seconds apart.

        Reads until gate closes or `wait` is over; with `quiet`, until nothing arrived for that time while other clients were served.
        """
        reader, writer = await self.open()
        try:
            for number, data in enumerate(writes):
                await asyncio.sleep(pause if number else 0)
                writer.write(data)
                with suppress(ConnectionError):
                    await writer.drain()
            raw, is_closed = await read_all(reader, wait, quiet, self._others)
        finally:
            writer.close()
            with suppress(OSError, ssl.SSLError):
                await writer.wait_closed()
        return Answer(raw, is_closed, methods)

    async def _ask_for_another(self) -> None:
        answer = await self.send(self.beat())
        if not answer.raw.startswith(b"HTTP/1.1 200 "):
            raise AssertionError(f"a good client got {answer.raw[:300]!r}")

    def beat(self) -> bytes:
        """A request that is carried in any case, of which nothing must be remembered."""
        return self.request(b"GET", b"/beat", "public", marker=BEAT)

    def memory(self) -> int:
        """Resident bytes of gate."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGESIZE")

    def is_alive(self) -> bool:
        return self.gate.child.process.poll() is None

    def browser(self) -> httpx.AsyncClient:
        """Keeps cookies as browsers do; follows nothing by itself."""
        return httpx.AsyncClient(transport=_Transport(self.port, self.tls), trust_env=False, timeout=20)

    async def sign_in(self, user: str, *sites: str) -> dict[str, bytes]:
        """A new browser: its session cookie's value at each site."""
        async with self.browser() as client:
            for number, site in enumerate(sites):
                url = f"https://{self.host(site)}{SIGNED_IN_SITES[site]}"
                await (follow(client, await client.get(url, headers={"Accept": "text/html"})) if number else sign_in(client, url, user))
            found = {site: gate_values(client, self.host(site).partition(":")[0]).split(b"; __Host-_gate=") for site in sites}
        self.bindings |= dict(found.values())
        return {site: value for site, (value, _) in found.items()}


class _Transport(EverythingOnLoopback):
    """Dials gate for every port, as behind a balancer; over plain TCP the browser believes in https, as where a balancer ends TLS."""

    def __init__(self, port: int, tls: ssl.SSLContext | None):
        super().__init__(verify=tls or False, trust_env=False)
        self._port, self._scheme = port, "https" if tls else "http"

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.scheme == "https":
            url = request.url.copy_with(scheme=self._scheme, port=self._port)
            request = httpx.Request(request.method, url, headers=request.headers, stream=request.stream, extensions=request.extensions)
        return await super().handle_async_request(request)


class _PlainBuilder(GateBuilder):
    def start(self, directory: Path) -> RunningGate:
        self.setting(insecure_server=True, certificate_file=None, certificate_key_file=None)
        files = CertificateFiles(Path("-"), Path("-"), Path("-"), None)  # type: ignore[arg-type]
        return _PlainGate(self, self.write(directory, files), files)


class _PlainGate(RunningGate):
    def _answers(self) -> bool:
        try:
            return httpx.get(
                f"http://127.0.0.1:{self.port}/ping", headers={"Host": self.builder.authenticate_host}, trust_env=False
            ).is_success
        except httpx.TransportError:
            return False


class _Starting:
    """`with` one of these and there is a Target."""

    def __init__(self, tls: bool, settings: dict[str, Any]):
        self._tls, self._settings = tls, settings
        self._stack = ExitStack()

    def __enter__(self) -> Target:
        with ExitStack() as stack:
            ledger = Ledger()
            canaries = {name: Canary(name, ledger) for name in CANARIES}
            server = CanaryServer(list(canaries.values()))
            server.start()
            stack.callback(server.stop)
            provider = stack.enter_context(DevelopmentProvider())
            builder = _with_routes((GateBuilder if self._tls else _PlainBuilder)(provider.url), canaries).setting(**self._settings)
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gate-attack-")))
            gate = stack.enter_context(builder.start(directory))
            target = Target(gate, canaries, ledger, gate.certificates.client_context() if self._tls else None)
            asyncio.run(sign_in_all_users(target))
            self._stack = stack.pop_all()
        return target

    def __exit__(self, *_: object) -> None:
        self._stack.close()


# Where a sign-in is asked for, and by which path.  alice and carol have a cookie at each.
SIGNED_IN_SITES = {"any": "/", "bare": "/", "group": "/", "mixed": "/admin/", "inverse": "/", "cors": "/", "default": "/"}


async def sign_in_all_users(target: Target) -> None:
    for user in PEOPLE:
        target.cookies[user] = await target.sign_in(user, *SIGNED_IN_SITES)
    target.ledger.forget()


def _with_routes(gate: GateBuilder, canaries: dict[str, Canary]) -> GateBuilder:
    to = {name: f"http://127.0.0.1:{canary.port}" for name, canary in canaries.items()}
    gate.setting(groups_claim="groups", jwt_claims_headers=JWT_CLAIMS, timeout_read=f"{READ_LIMIT:.0f}s", timeout_idle=f"{IDLE_LIMIT:.0f}s")
    gate.setting(forward_auth_url=f"http://{FORWARD_AUTH_HOST}", trusted_proxies=[f"{TRUSTED_ADDRESS}/32"])
    gate.route("group.localhost", to=to["group"], **ENGINEERS, **IDENTITY)
    gate.route("any.localhost", to=to["any"], **ANY_USER, **IDENTITY)
    gate.route("bare.localhost", to=to["bare"], **ANY_USER)
    gate.route("public.localhost", to=to["public"], **ALL_USERS, **IDENTITY)
    gate.route("mixed.localhost", to=to["secret"], prefix="/admin", **ENGINEERS, **IDENTITY)
    gate.route("mixed.localhost", to=to["secret"], path="/exact", **ENGINEERS)
    gate.route("mixed.localhost", to=to["secret"], regex="/re/[a-z]+/private", **ENGINEERS)
    gate.route("mixed.localhost", to=to["open"], **ALL_USERS, **IDENTITY)
    gate.route("inverse.localhost", to=to["open"], prefix="/public/", **ALL_USERS)
    gate.route("inverse.localhost", to=to["secret"], **ENGINEERS, **IDENTITY)
    for site, layout in LAYOUT_SITES.items():
        for route in layout:
            user_name, canary = ({}, "open") if route.is_open else (ENGINEERS, "secret")
            gate.route(f"{site}.localhost", to=to[canary], **route.keys(), **user_name)
    tools = [{"deny": {"mcp_tool": {"not_in": ["search"]}}}]
    gate.route("mcp.localhost", to=to["open"], mcp={"path": "/mcp"}, policy=tools, **ALL_USERS)
    gate.route("cors.localhost", to=to["cors"], cors_allow_preflight=True, **ENGINEERS, **IDENTITY)
    gate.route("rewrite.localhost", to=to["rewrite"], prefix="/api/", prefix_rewrite="/base/", **ALL_USERS)
    gate.route("rewrite.localhost", to=to["rewrite"], prefix="/cut", prefix_rewrite="/base/", **ALL_USERS)
    gate.route("rewrite.localhost", to=to["rewrite"] + "/deep", prefix="/to/", **ALL_USERS)
    gate.route("hostile.localhost", to=to["hostile"], timeout="1s", **ALL_USERS)
    gate.route("setter.localhost", to=to["setter"], set_request_headers={"X-Set-By-Route": "route"}, **ALL_USERS)
    gate.route("redirect.localhost", prefix="/host/", redirect={"host_redirect": "landed.localhost"})
    gate.route("redirect.localhost", prefix="/prefix/", redirect={"prefix_rewrite": "/new/"})
    gate.route("redirect.localhost", redirect={"path_redirect": "/fixed", "strip_query": True})
    for origin, name in ((f"https://any.localhost:{ELSEWHERE_PORT}", "elsewhere"), ("https://default.localhost", "default")):
        gate.policy.append({"from": origin, "to": to[name], **ANY_USER, **IDENTITY})
    # The target of a tunnel receives HTTP as well as anything.
    for name, user_name in (("group", ENGINEERS), ("public", ALL_USERS)):
        gate.policy.append({"from": f"tcp+https://{name}.localhost:{TUNNEL_PORT}", "to": to[name].replace("http:", "tcp:"), **user_name})
    return gate
