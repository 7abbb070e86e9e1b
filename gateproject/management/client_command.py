"""Base class of commands that users run on their own machines: they sign in at gate, and need no server configuration."""

import os
import ssl
from collections.abc import Callable
from typing import Any, TypeVar

from django.core.management.base import CommandError, CommandParser

from foundation.client_tls import verifying_context
from foundation.values import Url, parse_url
from gateproject.management.gate_command import GateCommand
from gateproject.tunnel import browser_sign_in, device_sign_in
from gateproject.tunnel.access_tokens import AccessTokens
from gateproject.tunnel.oauth_client import AuthorizationServer, GateAddress, discover
from gateproject.tunnel.token_file import StoredToken, TokenFile, cache_directory
from gateproject.tunnel.web_browser import open_browser

T = TypeVar("T")


class ClientCommand(GateCommand):
    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--url", metavar="URL", help="URL of gate (default: https and the host of the route)")
        parser.add_argument("--ca", metavar="FILE", help="CA certificate of gate, PEM (default: the system's)")
        parser.add_argument(
            "--no-browser", action="store_true", help="print a code to enter in a browser on any machine instead of opening a browser"
        )

    def gate_address(self, arguments: dict[str, Any], resource: Url) -> GateAddress:
        """Return the address of gate for a route, `https://host` or `tcp+https://host:port`. Raise CommandError."""
        port = resource.port if resource.scheme == "https" else None
        url = parse_argument("--url", _gate_url, arguments["url"] or str(Url("https", resource.host, port)))
        try:
            return GateAddress(url, verifying_context(arguments["ca"]))
        except (OSError, ssl.SSLError) as error:
            raise CommandError(f"--ca {arguments['ca']}: {error}") from None

    def access_tokens(self, arguments: dict[str, Any], gate: GateAddress, resource: Url, report: Callable[[str], None]) -> AccessTokens:
        """Return the source of tokens for a route; it signs the user in as the options say."""
        environ = dict(os.environ)  # noqa: TID251 - an entry point

        async def sign_in(server: AuthorizationServer) -> StoredToken:
            if arguments["no_browser"]:
                return await device_sign_in.sign_in(server, report)
            report("opening the browser to sign in")
            return await browser_sign_in.sign_in(server, lambda address: open_browser(address, environ))

        file = TokenFile(cache_directory(environ) / "tokens", resource, gate.url)
        return AccessTokens(file, lambda: discover(gate, resource), sign_in, report)


def parse_argument(option: str, parse: Callable[[str], T], written: str) -> T:
    """Return the parsed value of an option. Raise CommandError."""
    try:
        return parse(written)
    except ValueError as error:
        raise CommandError(f"{option} {written}: {error}") from None


def _gate_url(written: str) -> Url:
    parsed = parse_url(written)
    if parsed.scheme != "https" or parsed.path not in ("", "/") or parsed.query:
        raise ValueError("must be https://host with an optional port")
    return Url(parsed.scheme, parsed.host, parsed.port)
