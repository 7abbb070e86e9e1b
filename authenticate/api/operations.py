"""API operations: all of them, in the order of the document."""

from authenticate.api import access_requests, decisions, grants, people, routes, service_accounts, sessions

OPERATIONS = (
    *sessions.OPERATIONS,
    *people.OPERATIONS,
    *decisions.OPERATIONS,
    *grants.OPERATIONS,
    *access_requests.OPERATIONS,
    *service_accounts.OPERATIONS,
    *routes.OPERATIONS,
)
