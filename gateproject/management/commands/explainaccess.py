"""`manage.py explainaccess`: explains why a user may or may not access a URL, with the route table and policy of live requests."""

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import load_pem_x509_certificates
from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.db import Error

from authorize.explain.explanation import Explanation, explain, explain_logged
from authorize.explain.recorded_user import SeveralUsersError, recorded_user
from authorize.explain.simulation import (
    SimulatedUser,
    add_client,
    parse_address,
    parse_header,
    parse_time,
    simulate_identity,
    simulate_message,
    simulate_request,
)
from authorize.identity.client_certificates import parse_certificate
from authorize.models import LoggedDecision
from authorize.policy.identity import Identity
from authorize.policy.policy_request import ClientCertificate, PolicyRequest
from authorize.policy.route_table import RouteTable
from authorize.route_settings import default_ports, route_table
from config.fields.basic_types import duration
from config.options import Options
from databroker.admin.directory_run_admin import describe_last_success
from foundation.errors import BrokerError, ConfigError
from gateproject.management.broker_access import open_broker, users_by_email
from gateproject.management.configured_command import ConfiguredCommand, config_command_error, require_options

NOT_RECORDED = "No user with this address or id is recorded: evaluated as a user with nothing else."
MCP_OPTIONS = {
    "method": "method of a message to an MCP server, as in tools/list",
    "tool": "tool that a message to an MCP server calls",
    "prompt": "prompt that a message to an MCP server uses",
    "resource": "URI of the resource that a message to an MCP server uses",
}
_DESCRIBES_USER = ("group", "claim", "granted", "granted_tool", "session_age")
DESCRIBE_ONE = "Add --hypothetical to explain a described user instead."


@dataclass(frozen=True, slots=True)
class ExplainedUser:
    """User of an explanation. `is_hypothetical`: described on the command line instead of read from the records."""

    identity: Identity | None
    is_hypothetical: bool = False
    note: str = ""


class Command(ConfiguredCommand):
    help = (
        "Explain why a user is allowed or denied access to a URL: the matching route, each rule with its reason, and the outcome. "
        "The user is read from the records of the running gate; --group, --claim, --granted, --granted-tool, --session-age and "
        "--hypothetical describe "
        "one instead."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("url", metavar="URL", nargs="?", help="requested URL: https://app.example.com/path")
        parser.add_argument("--request", metavar="ID", help="explain a logged decision, by the request id on its page or in its log event")
        parser.add_argument("--user", help="user: e-mail address, provider/subject or subject (default: not signed in)")
        parser.add_argument("--group", action="append", default=[], metavar="ID", help="group id of a hypothetical user; may be repeated")
        parser.add_argument(
            "--claim",
            action="append",
            default=[],
            metavar="K=V",
            help='claim of a hypothetical user; V is JSON (true, 3, ["a"]) or text; may be repeated',
        )
        parser.add_argument("--granted", action="store_true", help="the hypothetical user has temporary access to the route")
        parser.add_argument(
            "--granted-tool", action="append", default=[], metavar="NAME", help="the same to this tool of an MCP server; may be repeated"
        )
        parser.add_argument("--client", default="", metavar="ID", help="OAuth client that acts for the user (default: a browser)")
        parser.add_argument("--scope", action="append", default=[], help="scope of the client's access token; may be repeated")
        parser.add_argument("--method", default="GET", help="HTTP method (default GET)")
        for name, text in MCP_OPTIONS.items():
            parser.add_argument(f"--mcp-{name}", default="", metavar=name.upper(), help=text)
        parser.add_argument("--ip", default="", metavar="ADDRESS", help="client address")
        parser.add_argument("--header", action="append", default=[], metavar="NAME: VALUE", help="request header; may be repeated")
        parser.add_argument(
            "--at", metavar="TIME", help="time: 2027-01-31T18:00 (UTC), 2027-01-31T18:00+01:00, or Unix seconds (default: now)"
        )
        parser.add_argument(
            "--session-age", metavar="DURATION", help="time since the sign-in of a hypothetical user, as in 2h30m (default 0)"
        )
        parser.add_argument("--cert", metavar="FILE", help="client certificate with its intermediates, PEM")
        parser.add_argument("--hypothetical", action="store_true", help="do not read the user from the records")
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        super().add_arguments(parser)

    def handle(self, *args: Any, **arguments: Any) -> None:
        options, table = current_routes()
        if bool(arguments["url"]) is bool(arguments["request"]):
            raise CommandError("set a URL, or --request with the id of a logged request")
        if arguments["request"]:
            self._write(_logged(arguments["request"], options), arguments)
            return
        request = _request(arguments, default_ports(options))
        now = time.time() if arguments["at"] is None else _read("--at", parse_time, arguments["at"])
        user = _user(arguments, options, now)
        try:
            identity = add_client(user.identity, arguments["client"], arguments["scope"])
        except ValueError as error:
            raise CommandError(f"--client, --scope: {error}") from None
        found = explain(request, identity, options, table, now)
        if found["user"] is not None:
            found["user"]["hypothetical"] = user.is_hypothetical
        self._write({**found, "note": " ".join(filter(None, (found["note"], user.note)))}, arguments)

    def _write(self, found: Explanation, arguments: dict[str, Any]) -> None:
        self.stdout.write(json.dumps(found, indent=2) if arguments["json"] else "\n".join(_lines(found)))


def current_routes() -> tuple[Options, RouteTable]:
    """Return the routes of the command's configuration. Raise CommandError if it is invalid."""
    options = require_options()
    try:
        return options, route_table(options)
    except ConfigError as error:
        raise config_command_error(error) from None


def _logged(request_id: str, options: Options) -> Explanation:
    try:
        row = LoggedDecision.objects.filter(request_id=request_id).order_by("pk").last()
        directory = describe_last_success(row.decided_at.timestamp(), options.record_id_prefix_for(row.user_id)) if row is not None else ""
    except Error as error:
        raise CommandError(f"cannot read the decision log from the database of this configuration: {error}") from None
    if row is None:
        raise CommandError(f"the decision log has no request {request_id}")
    return {**explain_logged(row, options, settings.GATE_SOURCE.checksum), "directory": directory}


def _request(arguments: dict[str, Any], ports: frozenset[int]) -> PolicyRequest:
    headers = [_read("--header", parse_header, written) for written in arguments["header"]]
    try:
        return simulate_request(
            arguments["url"],
            arguments["method"],
            ports,
            headers,
            source_ip=_read("--ip", parse_address, arguments["ip"]),
            client_certificate=_certificate(arguments["cert"]),
            mcp=simulate_message(*(arguments[f"mcp_{name}"] for name in MCP_OPTIONS)),
        )
    except ValueError as error:
        raise CommandError(str(error)) from None


def _read(option: str, read: Callable[[str], Any], written: str) -> Any:
    try:
        return read(written)
    except ValueError as error:
        raise CommandError(f"{option} {error}") from None


def _certificate(file: str | None) -> ClientCertificate | None:
    if file is None:
        return None
    try:
        chain = tuple(each.public_bytes(Encoding.DER) for each in load_pem_x509_certificates(Path(file).read_bytes()))
    except (OSError, ValueError) as error:
        raise CommandError(f"--cert {file}: {error}") from None
    return parse_certificate(chain)


def _user(arguments: dict[str, Any], options: Options, now: float) -> ExplainedUser:
    written = arguments["user"]
    if written is None or arguments["hypothetical"] or any(arguments[key] for key in _DESCRIBES_USER):
        described = _described_user(arguments, options, now)
        return ExplainedUser(described, is_hypothetical=described is not None)
    try:
        found = asyncio.run(_recorded(written, options, now))
    except SeveralUsersError as error:
        raise CommandError(f"--user {written!r}: {error}") from None
    except BrokerError as error:
        raise CommandError(f"--user: the records of the running gate cannot be read: {error}. {DESCRIBE_ONE}") from None
    return found or ExplainedUser(_described_user(arguments, options, now), is_hypothetical=True, note=NOT_RECORDED)


async def _recorded(written: str, options: Options, now: float) -> ExplainedUser | None:
    async with open_broker(options) as broker:
        ids = [written if "/" in written else f"{options.first_provider.id}/{written}"]
        if "@" in written and "/" not in written:
            ids = [record.id for records in (await users_by_email(broker, [written], options)).values() for record in records]
        found = await recorded_user(ids, broker, options, now)
    return None if found is None else ExplainedUser(found.identity, note=found.note)


def _described_user(arguments: dict[str, Any], options: Options, now: float) -> Identity | None:
    user, groups, claims = arguments["user"], arguments["group"], _claims(arguments["claim"])
    has_grant, granted_tools = arguments["granted"], arguments["granted_tool"]
    if user is None and (groups or claims or has_grant or granted_tools):
        raise CommandError("--group, --claim, --granted and --granted-tool describe a user. Set --user")
    try:
        signed_in = now - duration(arguments["session_age"] or "0").total_seconds()
    except ValueError as error:
        raise CommandError(f"--session-age {error}") from None
    try:
        return simulate_identity(SimulatedUser(user, groups, claims, signed_in, has_grant, granted_tools), options)
    except ValueError as error:
        raise CommandError(f"--user {error}") from None


def _claims(written: Iterable[str]) -> dict[str, Any]:
    claims: dict[str, Any] = {}
    for claim in written:
        name, separator, text = claim.partition("=")
        if not (name and separator):
            raise CommandError(f"--claim {claim!r} must be name=value")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        claims[name] = value if name not in claims else [*_listed(claims[name]), *_listed(value)]
    return claims


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _lines(found: dict[str, Any]) -> Iterator[str]:
    request, user = found["request"], found["user"]
    yield f"{request['method']} {request['host']}{request['path']}{_describe_message(request)}, {_describe_user(user)}"
    yield ""
    yield "Routes of this host, in order:" if found["routes"] else "No route has this host."
    for route in found["routes"]:
        conditions = "".join(f", {key} {route[key]}" for key in ("path", "prefix", "regex") if key in route)
        name = f" ({route['name']})" if "name" in route else ""
        yield f"  {route['key']}{name} {route['from']}{conditions}: {'matches' if route['matches'] else 'does not match'}"
        yield from (f"      {mismatch}" for mismatch in route["mismatches"])
    if found["rules"]:
        yield ""
        yield "Rules, up to the deciding one (one match is sufficient):"
        for rule in found["rules"]:
            yield f"  {rule['result']:7} {rule['rule']}: {rule['reason']}"
            if rule.get("actual"):
                yield f"          actual {rule['actual']}, expected: {rule['expected']}"
    yield ""
    yield f"Outcome: {found['outcome']}. {found['reason']}"
    if found.get("token_error"):
        yield f"The token was rejected: {found['token_error']}."
    if found["note"]:
        yield found["note"]
    yield from _context_lines(found)


def _context_lines(found: Explanation) -> Iterator[str]:
    if found["remedies"]:
        yield ""
        yield "It would be allowed with any one of:"
        yield from (f"  {way}" for way in found["remedies"])
    if found["data"]:
        yield ""
        yield "Records used:"
        yield from (f"  {record['record']}, changed {record['modified_at']}, {record['age']} before" for record in found["data"])
    if found.get("directory"):
        yield f"  last directory sync {found['directory']}"
    if shadow := found.get("shadow"):
        yield ""
        yield f"Shadow outcome: {shadow['outcome']} {shadow['reason']}"


def _describe_message(request: dict[str, Any]) -> str:
    """Return the method and name of an MCP message."""
    fields = request.get("mcp", {})
    name = fields.get("tool") or fields.get("prompt") or " ".join(fields.get("resources", ()))
    return " ".join(filter(None, ("", fields.get("method", ""), name)))


def _describe_user(user: dict[str, Any] | None) -> str:
    if user is None:
        return "you are not signed in"
    names = [name for name in (user["email"], user["user_id"]) if name]
    ignored = "" if user["email_verified"] or not user["email"] else ", an address that matches no e-mail rule"
    groups = f", groups {', '.join(user['groups'])}" if user["groups"] else ", no groups"
    how = "hypothetically signed in" if user.get("hypothetical") else "signed in"
    scopes = f" with {', '.join(user['scopes']) or 'no scopes'}" if "client_id" in user else ""
    client = f", client {user['client_id']}{scopes}" if "client_id" in user else ""
    return f"{how} as {' = '.join(names) or 'a user'}{ignored}{groups}{client}"
