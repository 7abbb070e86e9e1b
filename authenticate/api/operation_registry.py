"""All API operations, in the order of the OpenAPI document."""

from authenticate.api import (
    access_requests_api,
    connections_api,
    decisions_api,
    grants_api,
    routes_api,
    service_accounts_api,
    sessions_api,
    users_api,
)
from authenticate.api.api_operation import ApiOperation

MODULES = (
    sessions_api,
    connections_api,
    users_api,
    decisions_api,
    grants_api,
    access_requests_api,
    service_accounts_api,
    routes_api,
)
OPERATIONS = tuple(each for module in MODULES for each in vars(module).values() if isinstance(each, ApiOperation))
