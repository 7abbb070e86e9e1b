"""Simulated requests and users, as described by a policy test, the command line or the explain form.  Errors are ValueErrors."""

import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Any
from urllib.parse import quote, urlsplit

from authorize.identity.identity_builder import IdentityInputs, build_identity
from authorize.identity.service_account_loader import build_account_identity as account_identity
from authorize.policy.identity import GrantPeriod, Identity
from authorize.policy.mcp_message import NO_MESSAGE, McpMessage
from authorize.policy.policy_request import CONNECT, PolicyRequest, parse_request
from authorize.policy.user_entry import EntryKind, UserEntry, parse_user_entry
from config.options import Options
from config.provider_config import ProviderConfig
from config.routes.policy.criteria import MCP_METHODS
from config.routes.route_access_requests import tool_grant_key
from config.routes.route_bearer_tokens import JWT
from config.routes.route_tcp import SCHEME as TCP
from config.settings.provider_entry import SERVICE_ACCOUNT as PROVIDER
from databroker.claims import nest_claims
from databroker.records import DirectoryUser, ServiceAccountRecord, SessionRecord, UserRecord
from foundation.email_address import canonical_email
from foundation.errors import BadRequest
from foundation.values import canonical_host

_BODILESS = frozenset({"GET", "HEAD", "OPTIONS", "DELETE"})
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")  # urlsplit drops some of them silently


@dataclass(frozen=True, slots=True)
class SimulatedUser:
    """User of a simulated request.

    `user` has the format of `allowed_users`: an e-mail address, `provider/subject` or a subject.  None is an anonymous caller.
    `signed_in_at` is in Unix seconds, None for now.  `has_grant` means temporary access to every route without expiry, `granted_tools` the
    same to these tools alone.  `client` is the OAuth client that acts for the user, with `scopes`; "" for a browser.
    """

    user: str | None = None
    groups: Sequence[str] = ()
    claims: Mapping[str, Any] = field(default_factory=dict)
    signed_in_at: float | None = None
    has_grant: bool = False
    granted_tools: Sequence[str] = ()
    client: str = ""
    scopes: Sequence[str] = ()


def parse_header(written: str) -> tuple[bytes, bytes]:
    name, separator, value = written.partition(":")
    if not separator or not name.strip():
        raise ValueError(f"{written!r} must have the form name: value")
    return name.strip().lower().encode(), value.strip().encode()


def parse_address(written: str) -> str:
    """Return the canonical address, "" if unknown."""
    try:
        return str(ip_address(written)) if written else ""
    except ValueError:
        raise ValueError(f"{written!r} must be an address such as 192.0.2.7") from None


def parse_time(written: str) -> float:
    """Return the time in Unix seconds.  A time without a zone is UTC."""
    try:
        if written.replace(".", "", 1).isdigit():
            seconds = float(written)
            datetime.fromtimestamp(seconds, UTC)  # some number that no calendar has
            return seconds
        moment = datetime.fromisoformat(written)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError, OSError):
        raise ValueError(f"{written!r} must be a time such as 2027-01-31T18:00") from None


def simulate_request(
    url: str, method: str, ports: frozenset[int], headers: Sequence[tuple[bytes, bytes]] = (), **facts: Any
) -> PolicyRequest:
    """Return the request that a browser would send for this URL and headers.

    `facts` are the other fields of PolicyRequest.  A request with an MCP message (`mcp`) is a POST.  Without
    one, the message of a request that may have a body is unknown.
    """
    if facts.get("mcp") is not None:
        method = "POST" if method == "GET" else method
    elif method in _BODILESS:
        facts["mcp"] = NO_MESSAGE
    named_headers = dict(headers)
    facts |= {"headers": headers, "origin": named_headers.get(b"origin", b"")}
    facts["access_control_request_method"] = named_headers.get(b"access-control-request-method", b"")
    try:
        parts = urlsplit(url)
        if _CONTROLS.search(url) or parts.scheme not in ("https", "http", TCP) or not parts.hostname or "@" in parts.netloc:
            raise ValueError("must be a URL such as https://app.example.com/path")
        if parts.scheme == TCP:
            method = CONNECT
        elif method.upper() == CONNECT:
            raise ValueError("CONNECT is for tcp+https://host:port")
        if parts.scheme == TCP and (parts.path not in ("", "/") or parts.query):
            raise ValueError("a tunnel has no path")
        port = 80 if parts.scheme == "http" and not parts.port else parts.port
        host = canonical_host(f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname)
        path, query = (quote(part, safe="".join(map(chr, range(0x21, 0x7F)))).encode() for part in (parts.path or "/", parts.query))
        return parse_request(method, f"{host}:{port}".encode() if port else host.encode(), path, query, ports, **facts)
    except (ValueError, BadRequest) as error:
        raise ValueError(f"invalid URL {url!a}: {error}") from None


def simulate_message(method: str = "", tool: str = "", prompt: str = "", resource: str = "") -> McpMessage | None:
    """Return the MCP message with these values, None without any.  Raises ValueError for several names or another method's name."""
    named = {kind: name for kind, name in (("tool", tool), ("prompt", prompt), ("resource", resource)) if name}
    if len(named) > 1:
        raise ValueError("an MCP message has one of tool, prompt and resource")
    for kind in named:
        method = method or MCP_METHODS[kind][0]
        if method not in MCP_METHODS[kind]:
            raise ValueError(f"a {kind} is used by {', '.join(MCP_METHODS[kind])} only")
    return McpMessage(method, tool, prompt, (resource,) if resource else ()) if method else None


def add_client(identity: Identity | None, client: str, scopes: Sequence[str] = ()) -> Identity | None:
    """Return the identity with the OAuth client that acts for it, and the scopes of the client's access token; "" for a browser.

    Raises ValueError for scopes without a client, and for a client without a user.
    """
    if scopes and not client:
        raise ValueError("scopes need a client, whose access token has them")
    if client and identity is None:
        raise ValueError("a client needs a user to act for")
    if identity is None or (client, frozenset(scopes)) == (identity.client_id, identity.scopes):
        return identity
    sources, identity = identity.sources, replace(identity, client_id=client, scopes=frozenset(scopes))
    object.__setattr__(identity, "sources", sources)
    return identity


def simulate_identity(simulated: SimulatedUser, options: Options) -> Identity | None:
    """Return the identity, built from records as after a sign-in, so that the same rules apply."""
    identity = None if simulated.user is None else _simulate_user(simulated.user, simulated, options)
    return add_client(identity, simulated.client, simulated.scopes)


def _simulate_user(written: str, simulated: SimulatedUser, options: Options) -> Identity:
    claims = nest_claims(simulated.claims)
    provider, subject = _provider_for(written, options).id, ""
    if written.startswith(f"{PROVIDER}/"):
        account = ServiceAccountRecord(written.removeprefix(f"{PROVIDER}/"), tuple(simulated.groups), time.time(), math.inf, "")
        return account_identity(account, account.created_at)
    user_id = ""
    match named := _named(written):
        case UserEntry(EntryKind.EMAIL):
            claims.setdefault("email", written)
        case UserEntry(EntryKind.SUBJECT):
            subject, user_id = named.name, f"{provider}/{named.name}"
        case _:
            subject, user_id = named.name.removeprefix(named.provider)[1:], named.name
            # Users of unconfigured providers cannot sign in.  Rules compare the id only.
            provider = JWT if named.is_issuer_qualified else (named.provider if named.provider in options.providers else "")
    if subject:
        claims.setdefault("sub", subject)
    if provider == JWT:
        claims.setdefault("iss", named.provider)
    signed_in = time.time() if simulated.signed_in_at is None else simulated.signed_in_at
    email, verified, name = (claims.get(claim) for claim in ("email", "email_verified", "name"))
    session = SessionRecord("described", user_id, subject, provider, signed_in, math.inf, claims)
    if provider == JWT:
        verified = claims.get("email_verified", False)  # as of a token (authenticate/bearer_token_verification.py)
    user = UserRecord(user_id, email or "", verified, name or "", claims)
    granted = [*([""] if simulated.has_grant else []), *simulated.granted_tools]
    if provider not in options.providers:
        granted = []  # only users who sign in at a configured provider have temporary access
    access = {tool_grant_key(route.grant_key, tool): GrantPeriod(-math.inf, math.inf) for route in options.policy for tool in granted}
    facts = IdentityInputs(session, user, DirectoryUser(user_id, group_ids=tuple(simulated.groups)), access=access)
    configured = options.providers.get(provider)
    # The description is complete, so groups are never incomplete.
    identity = build_identity(
        facts, None if configured is None else replace(configured, expects_groups_claim=False, has_group_records=False, trusts_email=True)
    )
    # The sign-in time is also the authentication time, unless the claims contain one.
    return identity if "auth_time" in claims else replace(identity, auth_time=signed_in)


def _provider_for(written: str, options: Options) -> ProviderConfig:
    """Return the provider that is authoritative for an address.  The first provider, if none is, or for a plain subject."""
    domain = canonical_email(written).rpartition("@")[2]
    return next((each for each in options.providers.values() if each.owns_domain(domain)), options.first_provider)


def _named(written: str) -> UserEntry:
    """Parse a user entry.  Unlike in rules, an invalid address is accepted."""
    try:
        return parse_user_entry(written)
    except ValueError:
        if "@" in written and "/" not in written:
            return UserEntry(EntryKind.EMAIL, written)
        raise
