"""Stage of the identity attacks: gate as a child process, a provider whose every answer can be bent, an application that counts."""

import asyncio
import atexit
import os
import queue
import secrets
import ssl
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.attack import target as frame
from tests.attack.http_canary import Canary, CanaryServer, Hit, Ledger, Script
from tests.attack.identity_browser import Answer, Browser, Connections
from tests.support.fake_idp import CLIENT_ID, CLIENT_SECRET, PEOPLE, FakeIdP, Overrides
from tests.support.gate import AUTHENTICATE_HOST, GateBuilder, RunningGate

# Access by site: `anyone` any signed-in person, `corp` by domain, `ann` by address, `claim` by the claim `email`.
ANYONE, OTHER, PUBLIC, CORP, ANN, CLAIM = (f"{name}.localhost" for name in ("anyone", "other", "public", "corp", "ann", "claim"))
CLAIM_HEADERS = ["email", "name", "groups", "nickname"]
MOVED = "moved.localhost"
ALLOWED_EMAIL = "ann@corp.example"


class Provider:
    """The configurable provider, in a separate thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="bendable provider", daemon=True)
        self._thread.start()
        self.idp: FakeIdP = asyncio.run_coroutine_threadsafe(FakeIdP.started(), self._loop).result(10)

    def straighten(self) -> None:
        self.idp.bend = Overrides()

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    async def _end(self) -> None:
        slow_answers = asyncio.all_tasks() - {asyncio.current_task()}
        for task in slow_answers:
            task.cancel()
        await asyncio.gather(*slow_answers, return_exceptions=True)
        await self.idp.stop()


@dataclass
class Stage:
    """It has what run.py needs of a Target, so that a test can pass a Stage."""

    gate: RunningGate
    provider: Provider
    upstream: Canary
    connections: Connections
    tls: ssl.SSLContext

    @property
    def idp(self) -> FakeIdP:
        return self.provider.idp

    @property
    def ledger(self) -> Ledger:
        return self.upstream.ledger

    @property
    def bend(self) -> Overrides:
        return self.provider.idp.bend

    @property
    def authenticate(self) -> str:
        return self.gate.url(AUTHENTICATE_HOST, "")

    def url(self, host: str, path: str = "/") -> str:
        return self.gate.url(host, path)

    def browser(self) -> Browser:
        return Browser(self.connections)

    def memory(self) -> int:
        """Resident bytes of gate."""
        pages = int(Path(f"/proc/{self.gate.child.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGESIZE")

    def is_alive(self) -> bool:
        return self.gate.child.process.poll() is None

    async def send(self, data: bytes) -> frame.Answer:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.gate.port, ssl=self.tls, server_hostname=AUTHENTICATE_HOST)
        writer.write(data)
        try:
            return frame.Answer(await asyncio.wait_for(reader.read(), 10), True)
        finally:
            writer.close()

    def to_provider(self, browser: Browser, host: str = ANYONE, path: str = "/") -> str:
        """The URL at the provider to which opening a page leads this browser."""
        signed_url = browser.open(self.url(host, path)).location
        return browser.open(signed_url).location

    def picked(self, browser: Browser, sub: str = "alice", host: str = ANYONE, path: str = "/") -> str:
        """The callback URL that the provider's answer leads this browser to."""
        return self.idp.pick(self.to_provider(browser, host, path), sub)

    def sign_in(self, browser: Browser, sub: str = "alice", host: str = ANYONE, path: str = "/") -> Answer:
        """All steps; the answer to the last, which is the page's own where the sign-in was completed."""
        return self.finish(browser, self.picked(browser, sub, host, path))

    def finish(self, browser: Browser, callback_url: str) -> Answer:
        answer = browser.open(callback_url)
        for _ in range(3):
            if not answer.location.startswith("https://"):
                break
            answer = browser.open(answer.location)
        return answer

    def is_signed_in(self, browser: Browser, host: str = AUTHENTICATE_HOST) -> bool:
        """At the authenticate host by its page, at a route host by the headers that the application receives."""
        path = "/.gate/" if host == AUTHENTICATE_HOST else "/"
        return browser.open(self.url(host, path), headers=(("Accept", "text/html"),)).status == 200


@contextmanager
def staged(directory: Path, **settings: Any) -> Iterator[Stage]:
    """`settings` are further settings of gate by their file key."""
    with application() as upstream, bendable_provider() as provider, _gate(directory, provider, upstream, settings) as gate:
        tls = gate.certificates.client_context()
        connections = Connections(gate.port, tls)
        try:
            yield Stage(gate, provider, upstream, connections, tls)
        finally:
            connections.close()


def stage_of(target: Any) -> Stage:
    """The stage itself where a test hands it over; for a run, one that is started with the first attack and kept to the end."""
    return target if isinstance(target, Stage) else shared_stage("shared")


def shared_stage(name: str, start: Callable[[Path], AbstractContextManager[Stage]] = staged) -> Stage:
    """A stage that is started when it is first asked for by this name, and kept to the end."""
    with _starting:
        if name not in _stored:
            stack = ExitStack()
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gate-identity-")))
            _stored[name] = stack.enter_context(start(directory)), stack
        return _stored[name][0]


class Stages:
    """A pool: each user of the pool has one exclusively."""

    def __init__(self, kind: str, count: int):
        self._free: queue.LifoQueue[str] = queue.LifoQueue()
        for number in range(count):
            self._free.put(f"{kind} {number}")

    @contextmanager
    def one(self) -> Iterator[Stage]:
        name = self._free.get()
        try:
            yield shared_stage(name)
        finally:
            self._free.put(name)


_starting = threading.Lock()
_stored: dict[str, tuple[Stage, ExitStack]] = {}


@atexit.register
def end_shared_stages() -> None:
    while _stored:
        _, (_, stack) = _stored.popitem()
        stack.close()


@contextmanager
def application() -> Iterator[Canary]:
    canary = _Application("application", Ledger())
    server = CanaryServer([canary])
    server.start()
    try:
        yield canary
    finally:
        server.stop()


class _Application(Canary):
    """Responds with what it received."""

    def script(self, hit: Hit) -> Script:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % len(hit.head)
        return Script(head + hit.head)


@contextmanager
def bendable_provider() -> Iterator[Provider]:
    provider = Provider()
    try:
        yield provider
    finally:
        provider.close()


def _gate(directory: Path, provider: Provider, upstream: Canary, settings: dict[str, Any]) -> RunningGate:
    to = f"http://127.0.0.1:{upstream.port}"
    builder = GateBuilder(provider.idp.issuer)
    builder.route(MOVED, redirect={"host_redirect": OTHER})
    for host in (ANYONE, OTHER):
        builder.route(host, to=to, allow_any_authenticated_user=True, pass_identity_headers=True)
    builder.route(PUBLIC, to=to, allow_public_unauthenticated_access=True)
    builder.route(CORP, to=to, allowed_domains=["corp.example"])
    builder.route(ANN, to=to, allowed_users=[ALLOWED_EMAIL])
    builder.route(CLAIM, to=to, allowed_idp_claims={"email": [ALLOWED_EMAIL]})
    builder.setting(
        idp_client_id=CLIENT_ID, idp_client_secret=CLIENT_SECRET, groups_claim="groups", jwt_claims_headers=CLAIM_HEADERS, **settings
    )
    return builder.start(directory)


def new_user(**claims: Any) -> str:
    """The `sub` of a new user of the provider."""
    sub = f"person-{secrets.token_hex(6)}"
    PEOPLE[sub] = claims
    return sub
