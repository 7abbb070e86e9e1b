"""`manage.py token`: prints an access token for a route; needs no server configuration."""

import asyncio
from typing import Any

from django.core.management.base import CommandError, CommandParser

from foundation.values import Url, parse_url
from gateproject.management.client_command import ClientCommand, parse_argument
from gateproject.tunnel.access_tokens import AccessTokens
from gateproject.tunnel.tls_connection import TunnelError


class Command(ClientCommand):
    help = "Print an access token for the route of URL, for the header `Authorization: Bearer`. Signs in where needed."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("route", metavar="URL", help="URL of the route: https://wiki.example.com, or tcp+https://db.example.com:5432")
        parser.add_argument(
            "--revoke", action="store_true", help="end the session of the stored token and delete it, instead of printing one"
        )
        super().add_arguments(parser)

    def handle(self, *args: Any, **arguments: Any) -> None:
        resource = parse_argument("URL", _resource, arguments["route"])
        gate = self.gate_address(arguments, resource)

        def report(message: str) -> None:
            self.stderr.write(f"token for {resource}: {message}")

        tokens = self.access_tokens(arguments, gate, resource, report)
        try:
            if arguments["revoke"]:
                report("revoked" if asyncio.run(tokens.revoke()) else "there is no stored token")
            else:
                self.stdout.write(asyncio.run(_get_token(tokens)))
        except TunnelError as error:
            raise CommandError(f"token for {resource}: {error}") from None


async def _get_token(tokens: AccessTokens) -> str:
    return await tokens.find() or await tokens.replace("")


def _resource(written: str) -> Url:
    parsed = parse_url(written)
    if parsed.scheme == "https":
        return Url("https", parsed.host, parsed.port)
    if parsed.scheme != "tcp+https" or parsed.port is None or parsed.path:
        raise ValueError("must be https://host, or tcp+https://host:port")
    return parsed
