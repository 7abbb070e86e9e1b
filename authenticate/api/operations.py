"""API operations: all of them, in the order of the document."""

from authenticate.api import access_requests, decisions, grants, people, routes, service_accounts, sessions
from authenticate.api.declarations import ApiOperation

MODULES = (sessions, people, decisions, grants, access_requests, service_accounts, routes)
OPERATIONS = tuple(each for module in MODULES for each in vars(module).values() if isinstance(each, ApiOperation))
