"""Shadow outcomes are reported and have no effect."""

from pathlib import Path
from typing import Any

import pytest

from authorize.authorizer import AuthorizationResult, ShadowOutcome
from authorize.decision_log.shadow_policy import AMBIGUOUS_PATH, ShadowPolicy
from authorize.identity.client_certificates import ClientCertificates
from authorize.policy.decision import Outcome, decide
from authorize.policy.identity import Identity
from authorize.route_settings import route_table
from foundation.errors import ConfigError
from tests.support.options import make_options
from tests.unit.authorize.builders import NOW, request, user

APP = {"from": "https://app.example.com", "to": "http://up.example.com"}
SHADOW = {"mode": "shadow"}
OPEN = {"allow_any_authenticated_user": True}


async def both(directory: Path, policy: list[dict[str, Any]], incoming: Any, identity: Identity | None) -> tuple[str, ShadowOutcome | None]:
    """Return the enforced outcome and the shadow outcome."""
    options = make_options(directory, policy=policy)
    decision = decide(incoming, identity, route_table(options), NOW)

    async def no_other_identity() -> Identity | None:
        return None

    shadow_outcome = await ShadowPolicy(options).evaluate(
        incoming, AuthorizationResult(decision, identity), NOW, no_other_identity, ClientCertificates()
    )
    return decision.outcome.value, shadow_outcome


@pytest.mark.parametrize(
    ("routes", "identity", "outcome", "shadow_outcome"),
    [
        pytest.param([{**APP, "policy": [{**SHADOW, "allow": {"email": "ann@corp.com"}}]}], user(), "forbidden", "allowed", id="allow"),
        pytest.param(
            [{**APP, **OPEN, "policy": [{**SHADOW, "deny": {"email": "ann@corp.com"}}]}], user(), "allowed", "forbidden", id="deny"
        ),
        pytest.param([{**APP, **OPEN, "policy": [{**SHADOW, "deny": {"email": "bob@corp.com"}}]}], user(), "allowed", "allowed", id="same"),
        pytest.param(
            [{**APP, **OPEN, **SHADOW}, {**APP, "allowed_users": ["bob@corp.com"]}], user(), "forbidden", "allowed", id="route opens"
        ),
        pytest.param(
            [{**APP, **SHADOW, "allow_public_unauthenticated_access": True}, {**APP, **OPEN}], None, "sign in", "allowed", id="public"
        ),
        pytest.param(
            [{**APP, **SHADOW, "allowed_users": ["bob@corp.com"]}, {**APP, **OPEN}], user(), "allowed", "forbidden", id="route closes"
        ),
    ],
)
async def test_shadow_rules_have_no_effect_and_are_reported(tmp_path: Path, routes, identity, outcome, shadow_outcome) -> None:
    found, shadow = await both(tmp_path, routes, request(), identity)
    assert found == outcome
    assert shadow is not None
    assert shadow.outcome == shadow_outcome


async def test_no_shadow_outcome_without_shadow_rules(tmp_path: Path) -> None:
    routes = [{**APP, **OPEN, **SHADOW, "prefix": "/new"}, {**APP, **OPEN}]
    assert await both(tmp_path, routes, request("/old"), user()) == ("allowed", None)
    assert not ShadowPolicy(make_options(tmp_path, policy=[{**APP, **OPEN}])).has_shadow_rules


async def test_host_of_shadow_routes_only_is_not_served(tmp_path: Path) -> None:
    table = route_table(make_options(tmp_path, policy=[{**APP, **OPEN, **SHADOW}]))
    assert not table.has_host("app.example.com", None)
    assert table.routes() == ()


async def test_a_route_in_shadow_keeps_no_wildcard_from_its_host_but_would(tmp_path: Path) -> None:
    routes = [{**APP, **OPEN, **SHADOW, "path": "/new"}, {**APP, "from": "https://*.example.com", **OPEN}]
    found, shadow = await both(tmp_path, routes, request("/old"), user())
    assert (found, shadow) == ("allowed", ShadowOutcome(None, Outcome.NO_ROUTE.value, ""))


async def test_path_that_shadow_route_makes_ambiguous_is_reported(tmp_path: Path) -> None:
    routes = [{**APP, **SHADOW, **OPEN, "prefix": "/admin"}, {**APP, **OPEN}]
    found, shadow = await both(tmp_path, routes, request("//admin/x"), user())
    assert found == "allowed"
    assert shadow is not None
    assert shadow.outcome == AMBIGUOUS_PATH


async def test_shadow_rules_of_public_route_use_identity(tmp_path: Path) -> None:
    routes = [{**APP, **SHADOW, "allowed_users": ["ann@corp.com"]}, {**APP, "allow_public_unauthenticated_access": True}]
    options = make_options(tmp_path, policy=routes)
    decision = decide(request(), None, route_table(options), NOW)

    async def ann() -> Identity | None:
        return user()

    shadow = await ShadowPolicy(options).evaluate(request(), AuthorizationResult(decision, None), NOW, ann, ClientCertificates())
    assert decision.is_allowed
    assert shadow is not None
    assert shadow.outcome == "allowed"


def test_mistakes_in_shadow_are_mistakes(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="time_of_day"):
        make_options(tmp_path, policy=[{**APP, **SHADOW, "policy": [{**SHADOW, "deny": {"time_of_day": "never"}}]}])
    with pytest.raises(ConfigError, match="shadow"):
        make_options(tmp_path, policy=[{**APP, "mode": "shadows"}])


@pytest.mark.parametrize(
    "block", [{"mode": "shadow"}, {"mode": "shadwo", "deny": {"groups": "a"}}, {"mode": True, "deny": {"groups": "a"}}]
)
def test_a_mode_of_a_block_is_one_of_two_and_belongs_to_an_effect(tmp_path: Path, block: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="policy"):
        make_options(tmp_path, policy=[{**APP, **OPEN, "policy": [block]}])
