"""`manage.py tunnel`: opens a local port to a TCP route; needs no server configuration."""

import asyncio
import os
import ssl
import webbrowser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from config.fields.basic_types import host_port
from foundation.client_tls import verifying_context
from foundation.values import HostPort, Url, parse_url
from gateproject.management.gate_command import GateCommand
from gateproject.tunnel.browser_sign_in import sign_in
from gateproject.tunnel.tls_connection import TunnelError
from gateproject.tunnel.token_file import TokenFile, cache_directory, is_token
from gateproject.tunnel.tunnel_client import TunnelClient

STANDARD_STREAMS = "-"


class Command(GateCommand):
    help = "Open a local port, or standard input and output, as a tunnel through gate to HOST:PORT. Signs in with the browser."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "destination", metavar="HOST:PORT", help="host and port of the route: db.example.com:5432 for tcp+https://db.example.com:5432"
        )
        parser.add_argument(
            "--listen",
            default="127.0.0.1:0",
            metavar="ADDRESS",
            help="local address; - for standard input and output, as for ssh's ProxyCommand (default 127.0.0.1:0)",
        )
        parser.add_argument("--url", metavar="URL", help="URL of gate (default https://HOST)")
        parser.add_argument("--ca", metavar="FILE", help="CA certificate of gate, PEM (default: the system's)")
        parser.add_argument(
            "--token-file", metavar="FILE", help="file with a token, such as a service account's secret, in place of a sign-in"
        )
        parser.add_argument("--no-browser", action="store_true", help="print the sign-in URL instead of opening a browser")

    def handle(self, *args: Any, **arguments: Any) -> None:
        tunnels = self._tunnels(arguments)
        listen = arguments["listen"]
        try:
            if listen == STANDARD_STREAMS:
                asyncio.run(tunnels.relay_standard_streams())
            else:
                asyncio.run(self._listen(tunnels, _read("--listen", host_port, listen)))
        except TunnelError as error:
            raise CommandError(f"tunnel to {tunnels.destination}: {error}") from None

    def _tunnels(self, arguments: dict[str, Any]) -> TunnelClient:
        destination = _read("HOST:PORT", _destination, arguments["destination"])
        port = destination.port or 0  # it has one
        url = _read("--url", _gate_url, arguments["url"] or f"https://{destination.host}")
        try:
            context = verifying_context(arguments["ca"])
        except (OSError, ssl.SSLError) as error:
            raise CommandError(f"--ca {arguments['ca']}: {error}") from None
        token = _token(arguments["token_file"]) if arguments["token_file"] else ""

        def show(address: str) -> None:
            self.stderr.write(f"Sign in at: {address}")
            if not arguments["no_browser"]:
                webbrowser.open(address)

        return TunnelClient(
            destination.host_port,
            url,
            context,
            TokenFile(cache_directory(os.environ) / "tunnel", destination.host, url.origin),  # noqa: TID251 - an entry point
            None if token else lambda: sign_in(destination.host, port, url, context, show),
            lambda message: self.stderr.write(f"tunnel to {destination.host_port}: {message}"),
            token,
        )

    async def _listen(self, tunnels: TunnelClient, address: HostPort) -> None:
        try:
            server = await asyncio.get_running_loop().create_server(tunnels.accept, address.host or None, address.port)
        except OSError as error:
            raise CommandError(f"--listen {address}: {error.strerror or error}") from None
        async with server:
            host, port = server.sockets[0].getsockname()[:2]
            self.stdout.write(f"listening on {HostPort(host, port)} for {tunnels.destination}")
            self.stdout.flush()
            await server.serve_forever()


def _destination(written: str) -> Url:
    parsed = parse_url(f"tcp+https://{written}")
    if parsed.port is None or parsed.path or parsed.query:
        raise ValueError("must be a host and a port, as in db.example.com:5432")
    return parsed


def _gate_url(written: str) -> Url:
    parsed = parse_url(written)
    if parsed.scheme != "https" or parsed.path not in ("", "/") or parsed.query:
        raise ValueError("must be https://host with an optional port")
    return Url(parsed.scheme, parsed.host, parsed.port)


def _token(file: str) -> str:
    try:
        token = Path(file).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"--token-file {file} can't be read: {error}") from None
    if not is_token(token):
        raise CommandError(f"--token-file {file} contains no token")
    return token


def _read(option: str, read: Any, written: str) -> Any:
    try:
        return read(written)
    except ValueError as error:
        raise CommandError(f"{option} {written}: {error}") from None
