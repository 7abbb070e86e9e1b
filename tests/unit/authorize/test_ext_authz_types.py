"""Responses to Envoy, whatever the transport."""

import pytest

from authorize.authorizer import AuthorizationResult
from authorize.ext_authz_types import require_same_route
from authorize.policy.decision import NO_ROUTE
from foundation.errors import BrokerError


def test_a_decision_on_another_route_is_a_decision_on_nothing() -> None:
    with pytest.raises(BrokerError, match="Configure both alike"):
        require_same_route(AuthorizationResult(NO_ROUTE, None), "a-route")


def test_an_envoy_that_names_no_route_goes_by_the_decision_alone() -> None:
    require_same_route(AuthorizationResult(NO_ROUTE, None), "")
