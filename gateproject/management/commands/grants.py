"""`manage.py grants`: grants, lists and revokes temporary access to a route."""

import asyncio
import json
import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import Error

from authorize.identity.identity_builder import grant_subject_for_user
from authorize.policy.compiled_route import route_name
from config.fields.basic_types import duration
from config.options import Options
from config.provider_config import owned_email_for
from config.routes.route import Route
from config.routes.route_access_requests import is_tool_name
from config.settings.linked_accounts import VERIFIED_EMAIL
from databroker.audit_log import AuditAction, record_command
from databroker.broker_client import BrokerClient
from databroker.claims import verified_email
from databroker.grants.access_request_store import end_early
from databroker.grants.grant_records import AccessGrant, UserGrants
from databroker.grants.grant_store import AccessError, GrantStore, validate_reason
from databroker.models import User
from databroker.records import USER, UserRecord
from foundation.email_address import display_name
from foundation.errors import BrokerError
from foundation.readiness import format_utc
from gateproject.management.broker_access import open_broker, users_by_email
from gateproject.management.configured_command import ConfiguredCommand, command_line_user, prepare_tables, require_options

LINKED = f"{VERIFIED_EMAIL}/"
Held = tuple[UserGrants, AccessGrant]


class Command(ConfiguredCommand):
    help = "Grant, list and revoke temporary access to routes. Changes take effect immediately in every process."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        actions = parser.add_subparsers(dest="action", required=True)
        create = actions.add_parser("create", help="grant a user access to a route with access_requests or the criterion `granted`")
        create.add_argument("--user", required=True, help="user: an e-mail address, or PROVIDER/SUBJECT of a user who has signed in before")
        create.add_argument("--route", required=True, help="name of the route, or its position in the configuration, as in policy[3]")
        create.add_argument("--tool", default="", metavar="NAME", help="only calls of this tool of an MCP server")
        create.add_argument("--for", required=True, dest="lifetime", metavar="TIME", help="duration, as in 30m or 8h, at most 30 days")
        create.add_argument("--reason", required=True, help="reason, for the audit log")
        listing = actions.add_parser("list", help="list access that has not expired")
        listing.add_argument("--json", action="store_true", help="print one JSON array")
        revoke = actions.add_parser("revoke", help="revoke access before it expires")
        chosen = revoke.add_mutually_exclusive_group(required=True)
        chosen.add_argument("--id", nargs="+", metavar="ID", help="ids from `gate grants list`")
        chosen.add_argument("--user", nargs="+", metavar="USER", help="all access of these users: an e-mail address or PROVIDER/SUBJECT")
        chosen.add_argument("--all", action="store_true", help="all temporary access")

    def handle(self, *args: Any, **arguments: Any) -> None:
        options = require_options()
        prepare_tables(options)
        try:
            asyncio.run(getattr(self, f"_{arguments['action']}")(options, arguments))
        except AccessError as error:
            raise CommandError(str(error)) from error
        except BrokerError as error:
            raise CommandError(f"incomplete: {error}") from error
        except Error as error:
            raise CommandError(f"audit log write failed: {error}") from error

    async def _create(self, options: Options, arguments: dict[str, Any]) -> None:
        route, now = _route(options, arguments["route"]), time.time()
        tool, name = _tool(route, arguments["tool"]), route_name(route)
        async with open_broker(options) as broker:
            user = await _find_user(broker, arguments["user"], options)
            expires_at, reason = now + _seconds(arguments["lifetime"]), validate_reason(arguments["reason"])
            granted_by = f"{command_line_user()} (command line)"
            name = f"{name}: {tool}" if tool else name
            access = AccessGrant(secrets.token_hex(8), route.grant_key, now, expires_at, granted_by, reason, name, tool=tool)
            description = f"{_name(user.email or user.name, user.id)}, {access.route_name}, until {format_utc(expires_at)}: {reason}"
            # Audit first, so that an action that cannot be logged is not performed.
            await _record(AuditAction.GRANT_ACCESS, user.id, description)
            try:
                await GrantStore(broker).grant(user, access)
            except (AccessError, BrokerError):
                await _record(AuditAction.GRANT_ACCESS.failure, user.id, description)
                raise
        self.stdout.write(f"{access.id}: {description}")

    async def _revoke(self, options: Options, arguments: dict[str, Any]) -> None:
        async with open_broker(options) as broker:
            accesses, ended = GrantStore(broker), 0
            for record, access in _chosen([each async for each in accesses.iter_grants()], arguments, options):
                description = f"{_name(record.display_name, record.user_id)}, {access.route_name}"
                await _record(AuditAction.REVOKE_ACCESS, record.user_id, description)
                try:
                    is_ended = await end_early(broker, record, access)
                except (AccessError, BrokerError):
                    await _record(AuditAction.REVOKE_ACCESS.failure, record.user_id, description)
                    raise
                if not is_ended:
                    await _record(AuditAction.REVOKE_ACCESS.failure, record.user_id, description)
                ended += is_ended
        self.stdout.write(f"{ended} grants revoked" if ended != 1 else "1 grant revoked")

    async def _list(self, options: Options, arguments: dict[str, Any]) -> None:
        routes = {route.grant_key for route in options.policy if route.uses_temporary_access}
        async with open_broker(options) as broker:
            found = [_described(held, routes) async for held in GrantStore(broker).iter_grants()]
        if arguments["json"]:
            self.stdout.write(json.dumps(found, indent=2))
            return
        for each in found:
            gone = "" if each["is_effective"] else " (ineffective: the route was removed or changed)"
            self.stdout.write(
                f"{each['id']}: {_name(each['user'], each['user_id'])}, {each['route']}{gone}, until {each['expires_at']}; "
                f"since {each['started_at']} by {each['granted_by']}: {each['reason']}"
            )
        if not found:
            self.stderr.write("no temporary access")


def _chosen(found: list[Held], arguments: dict[str, Any], options: Options) -> list[Held]:
    """Return the grants to revoke. Raise AccessError for one that does not exist, so that a typo does not go unnoticed."""
    if arguments["all"]:
        return found
    if ids := arguments["id"]:
        return _known(ids, found, lambda record, access: (access.id,))
    users = [name.lower() if "@" in name and "/" not in name else name for name in arguments["user"]]
    return _known(users, found, lambda record, access: (record.user_id, _verified_address(record, options).lower()))


def _verified_address(record: UserGrants, options: Options) -> str:
    """Return the verified email of a grant's user; empty if their provider may not assert its domain."""
    return (
        record.display_name
        if record.user_id.startswith(LINKED)
        else owned_email_for(record.display_name, record.user_id, options.providers)
    )


def _known(named: list[str], found: list[Held], names: Callable[..., tuple[str, ...]]) -> list[Held]:
    chosen = [held for held in found if any(name in names(*held) for name in named)]
    if unknown := [name for name in named if not any(name in names(*held) for held in found)]:
        raise AccessError(f"nothing was revoked: no temporary access for {', '.join(unknown)}. `gate grants list` shows all")
    return chosen


def _route(options: Options, written: str) -> Route:
    found = [route for index, route in enumerate(options.policy) if written in (route.name, f"policy[{index}]")]
    if len(found) != 1:
        raise CommandError(f"--route {written!r} matches {'no route' if not found else 'several routes'}. Use policy[0], policy[1], ...")
    if not found[0].uses_temporary_access:
        raise CommandError(
            f"--route {written!r}: this route does not use temporary access. Add access_requests or `allow: {{granted: true}}` to it"
        )
    return found[0]


def _tool(route: Route, written: str) -> str:
    if written and (route.mcp is None or not is_tool_name(written)):
        raise CommandError(f"--tool {written!r}: {'must be the name of a tool' if route.mcp is not None else 'this route has no key mcp'}")
    return written


async def _find_user(broker: BrokerClient, written: str, options: Options) -> UserRecord:
    """Return the user with this address or id; an address of several users matches none."""
    if "/" in written and not written.startswith(LINKED):
        record = await broker.get(USER, written)
        found = [] if record is None else [UserRecord.from_record(record)]
    else:
        address = written.removeprefix(LINKED)
        found = list(map(UserRecord.from_record, (await users_by_email(broker, [address], options)).get(address, [])))
    # Linked accounts are one user, and a grant may belong to any of them.
    holders = {grant_subject_for_user(user, options.providers): user for user in found}
    if len(holders) != 1:
        none = "no user who has signed in" if "/" in written else "no user who has signed in with this verified address"
        raise CommandError(f"--user {written!r} matches {none if not found else 'several users'}. Use PROVIDER/SUBJECT")
    ((holder, user),) = holders.items()
    email = verified_email(user.id, user.to_data(), options.providers)
    return replace(user, id=holder.id, issuer=holder.issuer, email=email, name=display_name(user.name))


async def _record(action: str, id: str, description: str) -> None:
    await asyncio.to_thread(record_command, command_line_user(), action, id, User, description)


def _seconds(written: str) -> float:
    try:
        return int(written[:-1]) * 86400.0 if written[-1:] == "d" else duration(written).total_seconds()
    except ValueError as error:
        raise CommandError(f"--for {written!r} must be a duration such as 30m, 8h or 2d") from error


def _described(held: Held, routes: set[str]) -> dict[str, Any]:
    record, access = held
    return {
        "id": access.id,
        "user_id": record.user_id,
        "user": record.display_name,
        "route": access.route_name or access.route,
        "tool": access.tool,
        "is_effective": access.route in routes,
        "started_at": format_utc(access.started_at),
        "expires_at": format_utc(access.expires_at),
        "granted_by": access.granted_by,
        "reason": access.reason,
    }


def _name(user: str, id: str) -> str:
    return f"{user} ({id})" if user else id
