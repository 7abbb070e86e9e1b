"""An explanation has the route, each rule with its actual value, the deciding rule, and the age of the data."""

import re
from pathlib import Path

from authorize.explain.explanation import CONFIG_CHANGED, explain, explain_logged
from authorize.route_settings import route_table
from tests.support.options import make_options
from tests.unit.authorize.builders import NOW, request, user
from tests.unit.authorize.logged import APP, CHECKSUM, POLICY, log_decision

BOB = user("bob@corp.com", subject="2")


def test_simulated_request_uses_real_table(tmp_path: Path) -> None:
    options = make_options(tmp_path, policy=POLICY)
    found = explain(request("/a"), BOB, options, route_table(options), NOW)
    assert (found["outcome"], found["allowed"], found["route"]) == ("forbidden", False, options.policy[1].id)
    assert [(route["key"], route["matches"]) for route in found["routes"]] == [("policy[0]", False), ("policy[1]", True)]
    assert [(rule["rule"], rule["actual"], rule["expected"], rule["decisive"]) for rule in found["rules"]] == [
        ("allowed_users", "bob@corp.com, oidc/2, 2", "one of ann@corp.com", True)
    ]
    assert found["remedies"] == ["allowed_users: one of ann@corp.com"]


def test_logged_decision_is_explained_as_made_after_policy_change(database: None, tmp_path: Path) -> None:
    row = log_decision(tmp_path, "r1", BOB)
    now_open = make_options(tmp_path, policy=[{**APP, "allow_any_authenticated_user": True}])
    found = explain_logged(row, now_open, "other")
    assert (found["outcome"], found["request_id"], found["route_name"]) == ("forbidden", "r1", "Wages")
    assert [(rule["actual"], rule["decisive"]) for rule in found["rules"]] == [("bob@corp.com, oidc/2, 2", True)]
    assert found["data"] == [{"record": "session", "modified_at": "2027-01-15T07:58:30Z", "age": "0:01:30"}]
    assert (found["data_version"], found["duration_ms"]) == (7, 2.0)
    assert found["note"] == CONFIG_CHANGED
    assert explain_logged(row, make_options(tmp_path, policy=POLICY), CHECKSUM)["note"] == ""


def test_decisive_step_is_marked(tmp_path: Path) -> None:
    policy = [{**APP, "allowed_users": ["x@corp.com", "bob@corp.com"], "policy": [{"deny": {"domain": "corp.com"}}]}]
    options = make_options(tmp_path, policy=policy)
    found = explain(request(), BOB, options, route_table(options), NOW)
    assert [(rule["rule"], rule["decisive"]) for rule in found["rules"]] == [("policy[0].deny.domain", False), ("policy[0].deny", True)]
    assert found["remedies"] == ["policy[0].deny must not match"]


def test_inside_not_the_wish_is_the_other_way_round(tmp_path: Path) -> None:
    policy = [{**APP, "policy": [{"allow": {"and": [{"domain": "corp.com"}, {"not": {"email": "bob@corp.com"}}]}}]}]
    options = make_options(tmp_path, policy=policy)
    found = explain(request(), BOB, options, route_table(options), NOW)
    assert found["remedies"] == ["policy[0].allow: policy[0].allow.and[1].not.email: anything but is bob@corp.com"]


def test_ambiguous_url_is_reported(tmp_path: Path) -> None:
    options = make_options(tmp_path, policy=POLICY)
    found = explain(request("//open"), None, options, route_table(options), NOW)
    assert (found["outcome"], found["allowed"], found["rules"]) == ("bad request", False, [])
    for text in ("path as /open,", "'https://app.example.com prefix /open'", "route 'Wages'"):
        assert text in found["reason"]


def test_a_rule_that_two_readings_divide_names_the_other(tmp_path: Path) -> None:
    policy = [{**APP, "allow_public_unauthenticated_access": True, "policy": [{"deny": {"http_path": "/users"}}]}]
    options = make_options(tmp_path, policy=policy)
    found = explain(request("/users;%2Fx"), None, options, route_table(options), NOW)
    assert (found["outcome"], found["allowed"]) == ("forbidden", False)
    assert re.fullmatch("/users;%2Fx, .* as /users", found["rules"][0]["actual"])
