from datetime import timedelta
from pathlib import Path

import pytest

from authorize.authorizer import AuthorizationResult, WithheldCredentials
from authorize.policy.compiled_route import CompiledRoute
from authorize.policy.criterion import TraceStep
from authorize.policy.decision import NO_ROUTE, Decision, Outcome
from authorize.policy.reasons import Reason
from authorize.policy.route_table import RouteTable
from authorize.policy.truth import TRUE
from proxy.route_forwarding import ForwardingTable
from proxy.verdict import Forward
from tests.support.asgi import incoming_from
from tests.support.options import make_options
from tests.unit.authorize.builders import user

ROUTE = {"from": "https://app.example.com", "to": "http://127.0.0.1:9", "allow_any_authenticated_user": True}


def forward(compiled: CompiledRoute) -> Forward:
    return Forward(compiled, (), WithheldCredentials.GATE)


@pytest.mark.parametrize(
    ("keys", "settings", "timeout", "is_default"),
    [
        ({}, {}, 30.0, True),
        ({}, {"default_upstream_timeout": "7s"}, 7.0, True),
        ({}, {"default_upstream_timeout": "0"}, None, True),
        ({"timeout": "2s"}, {}, 2.0, False),
        ({"timeout": "0"}, {}, None, False),
    ],
)
def test_a_route_has_its_timeout_or_the_default(
    keys: dict, settings: dict, timeout: float | None, is_default: bool, tmp_path: Path
) -> None:
    options = make_options(tmp_path, policy=[{**ROUTE, **keys}], **settings)
    (compiled,) = RouteTable.build(options.policy, client_ca=None).routes()
    forwarding = ForwardingTable((compiled,), options).for_route(compiled)
    assert (forwarding.timeout, forwarding.is_default_timeout) == (timeout, is_default)
    assert timeout is None or timedelta(seconds=timeout)


def test_canonical_path_is_sent_and_query_is_untouched(tmp_path: Path) -> None:
    options = make_options(tmp_path, policy=[ROUTE])
    (compiled,) = RouteTable.build(options.policy, client_ca=None).routes()
    incoming = incoming_from("https://app.example.com/a/./b/%7Euser/../%41?x=%41&gate_session=token&y=/../")
    outgoing = ForwardingTable((compiled,), options).for_route(compiled).build_request(incoming, forward(compiled), (), "")
    assert outgoing.target == b"/a/b/A?x=%41&y=/../"


def test_first_of_two_equivalent_routes_matches(tmp_path: Path) -> None:
    second = {**ROUTE, "set_request_headers": {"X-Second": "1"}}
    options = make_options(tmp_path, policy=[ROUTE, second])
    routes = RouteTable.build(options.policy, client_ca=None).routes()
    forwarding = ForwardingTable(routes, options).for_route(routes[1])
    sent = forwarding.build_request(incoming_from("https://app.example.com/"), forward(routes[1]), (), "")
    assert b"X-Second" not in dict(sent.headers)


def test_forwarded_credentials_follow_from_the_decision(tmp_path: Path) -> None:
    options = make_options(tmp_path, policy=[ROUTE])
    (compiled,) = RouteTable.build(options.policy, client_ca=None).routes()
    forwarding = ForwardingTable((compiled,), options).for_route(compiled)
    incoming = incoming_from("https://app.example.com/", headers={"cookie": "mine=1", "authorization": "Basic eDp5", "x-mine": "1"})
    names = {b"cookie", b"authorization", b"x-mine"}
    preflight = AuthorizationResult(Decision(Outcome.ALLOWED, compiled, (TraceStep("cors_allow_preflight", TRUE, Reason.PREFLIGHT),)), None)
    bearer = AuthorizationResult(NO_ROUTE, user(session_id="bearer/1"))
    checks = (AuthorizationResult(NO_ROUTE, None), bearer, preflight)
    sent = [
        dict(forwarding.build_request(incoming, Forward(compiled, (), authorization.withheld_credentials), (), "").headers)
        for authorization in checks
    ]
    assert [names & headers.keys() for headers in sent] == [names, {b"cookie", b"x-mine"}, {b"x-mine"}]


def test_unchanged_route_reuses_its_rules_until_a_setting_changes(tmp_path: Path) -> None:
    options = make_options(tmp_path, policy=[ROUTE])
    routes = RouteTable.build(options.policy, client_ca=None).routes()
    first = ForwardingTable(routes, options)
    again = ForwardingTable(routes, options.model_copy(update={"policy": ()}), first)
    assert again.for_route(routes[0]) is first.for_route(routes[0])
    changed = ForwardingTable(routes, options.model_copy(update={"default_upstream_timeout": timedelta(seconds=7)}), again)
    assert changed.for_route(routes[0]).timeout == 7.0
    others = RouteTable.build(options.policy, client_ca=None).routes()
    assert ForwardingTable(others, options, first).for_route(others[0]) is not first.for_route(routes[0])


def test_unchanged_route_strips_identity_headers_added_on_another(tmp_path: Path) -> None:
    options = make_options(tmp_path, policy=[ROUTE])
    (compiled,) = routes = RouteTable.build(options.policy, client_ca=None).routes()
    identified = make_options(tmp_path, policy=[{**ROUTE, "from": "https://other.example.com", "identity_headers": "remote-user"}]).policy
    incoming = incoming_from("https://app.example.com/", headers={"remote_user": "admin", "x-mine": "1"})
    state, received = ForwardingTable(routes, options), []
    for policy in ((), identified, ()):
        state = ForwardingTable(routes, options.model_copy(update={"policy": (*options.policy, *policy)}), state)
        received.append(b"remote_user" in dict(state.for_route(compiled).build_request(incoming, forward(compiled), (), "").headers))
    assert received == [True, False, True]


def test_of_several_upstreams_one_is_chosen_and_called_by_its_name(tmp_path: Path) -> None:
    route = {**ROUTE, "to": ["http://a.internal:8000", "http://b.internal"]}
    options = make_options(tmp_path, policy=[route])
    (compiled,) = RouteTable.build(options.policy, client_ca=None).routes()
    forwarding = ForwardingTable((compiled,), options).for_route(compiled)
    sent = [forwarding.build_request(incoming_from("https://app.example.com/"), forward(compiled), (), "") for _ in range(2)]
    assert [(each.upstream.host, each.headers[0]) for each in sent] == [
        ("a.internal", (b"host", b"a.internal:8000")),
        ("b.internal", (b"host", b"b.internal")),
    ]
    assert all(each.selection is not None for each in sent)


def test_requests_of_one_user_are_sticky_where_configured(tmp_path: Path) -> None:
    route = {**ROUTE, "to": ["http://a.internal:8000", "http://b.internal"], "lb_policy": "RING_HASH"}
    options = make_options(tmp_path, policy=[route])
    (compiled,) = RouteTable.build(options.policy, client_ca=None).routes()
    forwarding = ForwardingTable((compiled,), options).for_route(compiled)
    incoming = incoming_from("https://app.example.com/")
    for session_id in ("session-1", "session-2", "session-3"):
        assert len({forwarding.build_request(incoming, forward(compiled), (), session_id).upstream.host for _ in range(4)}) == 1
    assert len({forwarding.build_request(incoming, forward(compiled), (), str(number)).upstream.host for number in range(40)}) == 2


def test_a_cluster_lives_on_where_a_setting_changes(tmp_path: Path) -> None:
    options = make_options(tmp_path, policy=[{**ROUTE, "to": ["http://a.internal", "http://b.internal"]}])
    routes = RouteTable.build(options.policy, client_ca=None).routes()
    first = ForwardingTable(routes, options)
    unchanged = ForwardingTable(routes, options, first)
    changed = ForwardingTable(routes, options.model_copy(update={"default_upstream_timeout": timedelta(seconds=7)}), unchanged)
    assert changed.for_route(routes[0]) is not first.for_route(routes[0])
    assert changed.for_route(routes[0]).cluster is first.for_route(routes[0]).cluster
