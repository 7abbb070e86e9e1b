"""API permissions of service accounts, by name; set when an account is created, none by default."""

from collections.abc import Iterable

PERMISSIONS = {
    "sessions:read": "list sessions",
    "sessions:end": "end one session, or all of a user",
    "connections:read": "list users' accounts at third-party MCP servers, without tokens",
    "connections:end": "disconnect users' accounts at third-party MCP servers",
    "users:read": "list users and their groups",
    "decisions:read": "read the decision log",
    "grants:read": "list temporary access",
    "grants:revoke": "revoke temporary access",
    "requests:read": "list access requests",
    "requests:decide": "decide access requests of routes whose approvers include the account",
    "service_accounts:read": "list service accounts, without secrets",
    "service_accounts:write": "create service accounts with at most its own rights, and revoke any",
    "routes:read": "list routes and their policy",
}


def unknown_permissions(names: Iterable[str]) -> list[str]:
    return sorted(set(names) - PERMISSIONS.keys())


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Return the distinct permissions in display order."""
    selected = set(names)
    return tuple(name for name in PERMISSIONS if name in selected)
