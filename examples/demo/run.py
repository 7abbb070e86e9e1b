"""The whole product on loopback: provider, applications and gate as children of one process that stops them all."""

import asyncio
import contextlib
import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

import httpx

from examples.demo import loopback
from examples.demo.children import Child, DemoError, require_free_port
from examples.demo.configuration import Folder, Ports, write_config
from examples.demo.people import ALICE, AUTHENTICATE_HOST, ECHO_AUTHORITY, HOSTS, SITES, USERS

ROOT = Path(__file__).parents[2]
READY_TIMEOUT = 90.0


def main(ports: Ports, folder_path: Path, environ: Mapping[str, str], *, by_daphne: bool = False) -> int:
    """Runs until Ctrl-C, SIGTERM or SIGHUP (0), or until something fails (1).  `by_daphne`: gate is served by that command."""
    return asyncio.run(_until_stopped(ports, folder_path, environ, by_daphne=by_daphne))


async def _until_stopped(ports: Ports, folder_path: Path, environ: Mapping[str, str], *, by_daphne: bool) -> int:
    demo = asyncio.current_task()
    assert demo is not None

    def stop() -> None:
        # Only the first one counts: an impatient second Ctrl-C must not leave children behind.
        if not demo.cancelling():
            print_line("\nStopping ...")
            demo.cancel()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    try:
        async with contextlib.AsyncExitStack() as children:
            await Demo(ports, Folder.prepare(folder_path), environ, children, by_daphne=by_daphne).run()
    except DemoError as error:
        print(f"demo: {error}", file=sys.stderr, flush=True)
        return 1
    except asyncio.CancelledError:
        print_line("Stopped.")
    return 0


class Demo:
    def __init__(self, ports: Ports, folder: Folder, environ: Mapping[str, str], stack: contextlib.AsyncExitStack, *, by_daphne: bool):
        self.by_daphne = by_daphne
        self.ports = ports
        self.folder = folder
        self.environ = environ
        self.stack = stack
        self.children: list[Child] = []

    async def run(self) -> None:
        require_free_port(self.ports.gate, "gate", "PORT")
        require_free_port(self.ports.provider, "the development provider", "IDP_PORT")
        print_line("Starting the development provider and the sample applications ...")
        await self._start("provider", sys.executable, *self._provider(), announces=True)
        issuer = AUTHENTICATE_HOST + self.ports.suffix
        options = ("--issuer", issuer, "--ca", str(self.folder.ca_file))
        upstreams = await self._start("upstreams", sys.executable, "-m", "examples.demo.upstreams", *options, announces=True)
        print_line("Starting gate ...")
        config_file = write_config(self.folder, self.ports, upstreams)
        await self._start("gate", sys.executable, *self._gate(config_file), GATE_CONFIG=str(config_file))
        await self._or_the_end_of_a_child(self._everything_answers())
        print_line(introduction(self.ports, self.folder))
        await self._or_the_end_of_a_child(asyncio.Event().wait())

    def _provider(self) -> tuple[str, ...]:
        return ("-m", "examples.demo.provider", str(self.ports.provider), "--address", self.ports.address)

    def _gate(self, config_file: Path) -> tuple[str, ...]:
        if not self.by_daphne:
            return ("-m", "gateproject.command", "run", "-config", str(config_file))
        return ("-m", "daphne", "-b", self.ports.address, "-p", str(self.ports.gate), "gateproject.asgi:application")

    async def _start(self, name: str, *command: str, announces: bool = False, **more: str) -> dict[str, int]:
        log_file = self.folder.log_file(name)
        child = await Child.start(name, command, folder=ROOT, log_file=log_file, environ=self.environ, announces=announces, **more)
        self.children.append(child)
        self.stack.push_async_callback(child.stop)
        return await child.announcement() if announces else {}

    async def _or_the_end_of_a_child(self, work) -> None:
        """Waits for `work`; raises DemoError as soon as one of the children is gone."""
        tasks = [asyncio.ensure_future(work), *(asyncio.ensure_future(child.ended()) for child in self.children)]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                if (failure := task.result()) is not None and task is not tasks[0]:
                    raise failure
        finally:
            for task in tasks:
                task.cancel()

    async def _everything_answers(self) -> None:
        checks = {self.ports.provider_url + "/.well-known/openid-configuration": 200}
        checks |= {self.ports.url(host, "/ping"): 200 for host in HOSTS}
        checks[self.ports.url(AUTHENTICATE_HOST, "/.well-known/gate/jwks.json")] = 200
        checks |= {self.ports.url(site.host): 200 if site.visitors is None else 302 for site in SITES}
        try:
            async with asyncio.timeout(READY_TIMEOUT), loopback.client(self.folder.ca_file, timeout=5) as client:
                for url, status in checks.items():
                    await _answers(client, url, status)
        except TimeoutError:
            gate = self.children[-1]
            raise DemoError(f"{url} does not answer with status {status}; the end of {gate.log_file}:\n{gate.last_lines()}") from None


async def _answers(client: httpx.AsyncClient, url: str, status: int) -> None:
    while True:
        with contextlib.suppress(httpx.TransportError):
            if (await client.get(url, headers={"Accept": "text/html"})).status_code == status:
                return
        await asyncio.sleep(0.05)


def print_line(text: str) -> None:
    print(text, flush=True)


def introduction(ports: Ports, folder: Folder) -> str:
    ca = folder.ca_file
    account_url = ports.url(AUTHENTICATE_HOST, "/.gate/")
    pages = {ports.url(site.host): f"{site.about}: {site.describe_visitors()}" for site in SITES}
    pages |= {
        account_url: "your applications and account, sign-out",
        f"{account_url}admin/": f"sessions, users, routes, explanations of decisions: only {ALICE.sub}",
    }
    width, hello = max(map(len, pages)), ports.url("hello.localhost")
    user_lines = [f"  {user.sub:<7}{user.email:<20}{_groups(user):<19}can open {_sees(user)}" for user in USERS]
    lines = [
        "",
        "Sites",
        *(f"  {url:<{width}}  {about}" for url, about in pages.items()),
        "",
        "Users (choose one at sign-in; there are no passwords)",
        *user_lines,
        "",
        f"TCP route {ECHO_AUTHORITY} (echoes what you send; any signed-in user). In another terminal:",
        f"  {_gate()} tunnel {ECHO_AUTHORITY} --listen 127.0.0.1:7777 {_where(ports, ca)}",
        "  nc 127.0.0.1 7777",
        "",
        "Scripts, with a token that acts for you:",
        f'  curl --cacert {_quoted(ca)} -H "Authorization: Bearer $({_gate()} token {hello} --ca {_quoted(ca)})" {hello}',
        "",
        "MCP server of the site notes, for agents, for example Claude Code (allow it in the browser; bob and carol cannot delete notes):",
        f"  claude mcp add --transport http notes {ports.url('notes.localhost', '/mcp')}",
        f"  NODE_EXTRA_CA_CERTS={_quoted(ca)} claude    then /mcp, notes, Authenticate",
        "",
        "Your browser does not know the demo's certificate authority yet. Accept the warning on each site, or trust",
        f"  {ca}",
        "It can issue certificates only for *.localhost and loopback addresses.",
        f"  curl             curl --cacert {_quoted(ca)} {ports.url('public.localhost')}",
        "  Firefox          Settings, Privacy & Security, View Certificates, Authorities, Import",
        f'  Chrome on Linux  certutil -d sql:$HOME/.pki/nssdb -A -t C,, -n "gate demo" -i {_quoted(ca)}   (package libnss3-tools)',
        f"  macOS            security add-trusted-cert -r trustRoot -k ~/Library/Keychains/login.keychain-db {_quoted(ca)}",
        f"  Windows          certutil -user -addstore Root {_quoted(ca)}",
        f"  Debian, Ubuntu   sudo cp {_quoted(ca)} /usr/local/share/ca-certificates/gate-demo.crt && sudo update-ca-certificates",
        *_names_hint(),
        "",
        f"Logs and the configuration: {folder.path}. Ctrl-C stops everything.",
        f"gate is ready: {hello}",
    ]
    return "\n".join(lines)


def _gate() -> str:
    """Return the command line of gate, as the demo was started."""
    return "gate" if Path(sys.argv[0]).name == "gate" else ".venv/bin/python manage.py"


def _groups(user) -> str:
    return "group " + ", ".join(user.groups) if user.groups else "no group"


def _sees(user) -> str:
    return ", ".join(site.name for site in SITES if site.visitors is None or user in site.visitors)


def _where(ports: Ports, ca: Path) -> str:
    return f"--url {ports.url('hello.localhost', '')} --ca {_quoted(ca)}"


def _quoted(path: Path) -> str:
    return f'"{path}"' if " " in str(path) else str(path)


def _names_hint() -> list[str]:
    try:
        socket.getaddrinfo(HOSTS[1], 443)
        return []
    except socket.gaierror:
        return [
            "Chrome, Edge, Firefox and curl resolve *.localhost themselves. For other programs, add this line to /etc/hosts:",
            f"  127.0.0.1 {' '.join(HOSTS)}",
        ]
