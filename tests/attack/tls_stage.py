"""Two gates whose routes want client certificates: one without and one with `autocert`, which reads each ClientHello itself first."""

import asyncio
import atexit
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from OpenSSL import SSL

from tests.attack.http_canary import Canary, CanaryServer, Ledger
from tests.attack.run import ACCEPTED, MAX_GROWTH, REFUSED, Outcome, expect
from tests.attack.target import ALL_USERS, Target, new_marker
from tests.attack.tls_client import Bend, Client, Received, context, whole
from tests.support.client_certificates import Issued, authority
from tests.support.gate import GateBuilder

GATES = ("plain", "autocert")
WANTS_NOTHING = "wants nothing"
NO_CERTIFICATE = 495
CHANGING = "changing.pem"
ANNS, BOBS = authority("ann's"), authority("bob's")
ANN, BOB = ANNS.issue("ann"), BOBS.issue("bob")
VALID = {"ann": ANN, "bob": BOB, "one.wild": ANN}


def full(name: str) -> bytes:
    return f"{name}.localhost".encode()


class Stage(Target):
    """`directory` holds the files of the authorities."""

    directory = Path()
    at_rest = 0

    async def ask(
        self,
        host: str,
        presented: Sequence[Issued] = (),
        *,
        server_name: bytes | None,
        version: str = "1.3",
        bend: Bend = whole,
        using: SSL.Context | None = None,
        **more: Any,
    ) -> tuple[Received, bool]:
        """Response to one request on a new connection, and whether an upstream saw it.  `more` as in Client."""
        client = Client(self.port, using or context(version, presented), server_name, **more)
        try:
            problem = await client.connect(bend)
            return (Received(b"", problem), False) if problem else await self.on(client, host)
        finally:
            await client.close()

    async def on(self, client: Client, host: str) -> tuple[Received, bool]:
        marker = new_marker()
        received = await client.ask(self.request(b"GET", b"/", host, marker=marker, close=False))
        return received, bool(self.ledger.hits(marker))

    def evaluate(self, received: Received, was_seen: bool, *, is_proven: bool, must_forward: bool = False) -> Outcome:
        output = f"{received.status} {received.problem}"
        expect(is_proven or not was_seen, f"the upstream saw a request without a proven certificate ({output})", received.raw)
        expect(is_proven or received.status != 200, "answered as if the certificate were proven", received.raw)
        expect(was_seen or not must_forward, f"who shows the right certificate is not let in ({output})", received.raw)
        self.look()
        return ACCEPTED if was_seen else REFUSED

    def look(self) -> None:
        expect(self.is_alive(), "gate has died")
        growth = self.memory() - self.at_rest
        expect(growth < MAX_GROWTH, f"gate grew by {growth >> 20} MiB")

    def trust(self, *authorities: Issued) -> None:
        """The file of `changing` holds these from now on; gate learns of it by itself."""
        self.replace_authorities(b"".join(each.pem for each in authorities))

    def replace_authorities(self, content: bytes) -> None:
        new = self.directory / "new"
        new.write_bytes(content)
        new.replace(self.directory / CHANGING)

    def refused_configurations(self) -> int:
        return sum(entry.get("event") == "configuration rejected" for entry in self.gate.log)

    async def wait_until(self, presented: Issued, is_let_in: bool) -> None:
        while (await self.ask("changing", [presented], server_name=full("changing")))[1] != is_let_in:
            await asyncio.sleep(0.05)


@cache
def stage(name: str) -> Stage:
    """Started when it is first asked for, and kept to the end."""
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(new_stage(name))


@contextmanager
def new_stage(name: str) -> Iterator[Stage]:
    with ExitStack() as stack:
        yield _start(name, stack)


def _start(name: str, stack: ExitStack) -> Stage:
    ledger = Ledger()
    canaries = {each: Canary(each, ledger) for each in ("wanting", "open")}
    server = CanaryServer(list(canaries.values()))
    server.start()
    stack.callback(server.stop)
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gate-b34-")))
    for file, owner in (("anns.pem", ANNS), ("bobs.pem", BOBS), (CHANGING, ANNS)):
        (directory / file).write_bytes(owner.pem)
    gate = stack.enter_context(_builder(name, canaries).start(directory))
    made = Stage(gate, canaries, ledger, None)
    made.directory, made.at_rest = directory, made.memory()
    return made


def _builder(name: str, canaries: dict[str, Canary]) -> GateBuilder:
    """With `autocert` the authority of most routes is `client_ca`; otherwise each names its own."""
    gate = GateBuilder("http://127.0.0.1:9")
    if name == WANTS_NOTHING:
        return gate.route("ann.localhost", to=f"http://127.0.0.1:{canaries['wanting'].port}", **ALL_USERS)
    wanting, opened = ({"to": f"http://127.0.0.1:{canaries[each].port}", **ALL_USERS} for each in ("wanting", "open"))
    anns = {} if name == "autocert" else {"tls_downstream_client_ca_file": "anns.pem"}
    gate.route("ann.localhost", **wanting, **anns)
    gate.route("*.wild.localhost", **wanting, **anns)
    gate.route("bob.localhost", **wanting, tls_downstream_client_ca_file="bobs.pem")
    gate.route("changing.localhost", **wanting, tls_downstream_client_ca_file=CHANGING)
    if name == "autocert":
        # Every host has its certificate already, so none is requested; each ClientHello is looked at all the same.
        return gate.setting(autocert=True, autocert_ca="https://127.0.0.1:9/directory", client_ca_file="anns.pem")
    return gate.route("open.localhost", **opened)
