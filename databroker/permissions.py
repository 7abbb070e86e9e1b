"""Permissions of service accounts at the API, by name: given when an account is made, none by default."""

from collections.abc import Iterable

PERMISSIONS = {
    "sessions:read": "see who is signed in, where and since when",
    "sessions:end": "end sessions, one or all of a person",
    "people:read": "see people and their groups",
    "decisions:read": "see the decision log",
    "grants:read": "list temporary access",
    "grants:revoke": "end access before its time",
    "requests:read": "see who asks for access",
    "requests:decide": "answer requests for access, where a route's approvers name the account",
    "service_accounts:read": "see service accounts, never their secrets",
    "service_accounts:write": "make service accounts that may do no more than this one, and revoke any",
    "routes:read": "see routes and who may enter",
}


def unknown_permissions(names: Iterable[str]) -> list[str]:
    return sorted(set(names) - PERMISSIONS.keys())


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Each once, in the order in which people are told of them."""
    given = set(names)
    return tuple(name for name in PERMISSIONS if name in given)
