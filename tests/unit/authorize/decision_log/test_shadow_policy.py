"""Is what stands in shadow told, and nothing done by it?"""

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


async def both(directory: Path, policy: list[dict[str, Any]], asked: Any, person: Identity | None) -> tuple[str, ShadowOutcome | None]:
    """What the request comes to, and what it would come to."""
    options = make_options(directory, policy=policy)
    decision = decide(asked, person, route_table(options), NOW)

    async def nobody_else() -> Identity | None:
        return None

    shadow_outcome = await ShadowPolicy(options).evaluate(
        asked, AuthorizationResult(decision, person), NOW, nobody_else, ClientCertificates()
    )
    return decision.outcome.value, shadow_outcome


@pytest.mark.parametrize(
    ("routes", "person", "outcome", "shadow_outcome"),
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
async def test_what_is_in_shadow_neither_allows_nor_denies_and_is_told(tmp_path: Path, routes, person, outcome, shadow_outcome) -> None:
    found, told = await both(tmp_path, routes, request(), person)
    assert found == outcome
    assert told is not None
    assert told.outcome == shadow_outcome


async def test_where_nothing_in_shadow_bears_on_a_request_nothing_is_told(tmp_path: Path) -> None:
    routes = [{**APP, **OPEN, **SHADOW, "prefix": "/new"}, {**APP, **OPEN}]
    assert await both(tmp_path, routes, request("/old"), user()) == ("allowed", None)
    assert not ShadowPolicy(make_options(tmp_path, policy=[{**APP, **OPEN}])).has_shadow_rules


async def test_a_host_that_only_routes_in_shadow_have_is_no_host_of_ours(tmp_path: Path) -> None:
    table = route_table(make_options(tmp_path, policy=[{**APP, **OPEN, **SHADOW}]))
    assert not table.has_host("app.example.com", None)
    assert table.routes() == ()


async def test_a_route_in_shadow_keeps_no_wildcard_from_its_host_but_would(tmp_path: Path) -> None:
    routes = [{**APP, **OPEN, **SHADOW, "path": "/new"}, {**APP, "from": "https://*.example.com", **OPEN}]
    found, told = await both(tmp_path, routes, request("/old"), user())
    assert (found, told) == ("allowed", ShadowOutcome(None, Outcome.NO_ROUTE.value, ""))


async def test_a_path_that_a_route_in_shadow_makes_doubtful_is_told(tmp_path: Path) -> None:
    routes = [{**APP, **SHADOW, **OPEN, "prefix": "/admin"}, {**APP, **OPEN}]
    found, told = await both(tmp_path, routes, request("//admin/x"), user())
    assert found == "allowed"
    assert told is not None
    assert told.outcome == AMBIGUOUS_PATH


async def test_on_a_route_that_is_open_to_all_it_is_asked_who_it_is(tmp_path: Path) -> None:
    routes = [{**APP, **SHADOW, "allowed_users": ["ann@corp.com"]}, {**APP, "allow_public_unauthenticated_access": True}]
    options = make_options(tmp_path, policy=routes)
    decision = decide(request(), None, route_table(options), NOW)

    async def ann() -> Identity | None:
        return user()

    told = await ShadowPolicy(options).evaluate(request(), AuthorizationResult(decision, None), NOW, ann, ClientCertificates())
    assert decision.is_allowed
    assert told is not None
    assert told.outcome == "allowed"


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
