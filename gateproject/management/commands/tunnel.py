"""`manage.py tunnel`: opens a local port to a TCP route; needs no server configuration."""

import asyncio
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from config.fields.basic_types import host_port
from foundation.values import HostPort, Url, parse_url
from gateproject.management.client_command import ClientCommand, parse_argument
from gateproject.tunnel.tls_connection import TunnelError
from gateproject.tunnel.token_file import is_token
from gateproject.tunnel.tunnel_client import TunnelClient

STANDARD_STREAMS = "-"


class Command(ClientCommand):
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
        parser.add_argument(
            "--token-file", metavar="FILE", help="file with a token, such as a service account's secret, in place of a sign-in"
        )
        super().add_arguments(parser)

    def handle(self, *args: Any, **arguments: Any) -> None:
        tunnels = self._tunnels(arguments)
        listen = arguments["listen"]
        try:
            if listen == STANDARD_STREAMS:
                asyncio.run(tunnels.relay_standard_streams())
            else:
                asyncio.run(self._listen(tunnels, parse_argument("--listen", host_port, listen)))
        except TunnelError as error:
            raise CommandError(f"tunnel to {tunnels.destination}: {error}") from None

    def _tunnels(self, arguments: dict[str, Any]) -> TunnelClient:
        resource = parse_argument("HOST:PORT", _resource, arguments["destination"])
        gate = self.gate_address(arguments, resource)

        def report(message: str) -> None:
            self.stderr.write(f"tunnel to {resource.host_port}: {message}")

        token_file = arguments["token_file"]
        tokens = _read_token(token_file) if token_file else self.access_tokens(arguments, gate, resource, report)
        return TunnelClient(resource.host_port, gate, tokens, report)

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


def _resource(written: str) -> Url:
    parsed = parse_url(f"tcp+https://{written}")
    if parsed.port is None or parsed.path or parsed.query:
        raise ValueError("must be a host and a port, as in db.example.com:5432")
    return parsed


def _read_token(file: str) -> str:
    try:
        token = Path(file).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"--token-file {file} can't be read: {error}") from None
    if not is_token(token):
        raise CommandError(f"--token-file {file} contains no token")
    return token
