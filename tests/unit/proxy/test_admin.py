"""The admin describes the running configuration."""

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

import authorize.admin
import databroker.admin.session_admin
from config.routes.route import Route
from foundation.errors import Problem
from proxy import admin
from proxy.upstreams.cluster import Clusters
from proxy.upstreams.upstream_errors import UpstreamErrors
from tests.support.admin import AdminPages, apps_on_sign_in_page, visible_text

pytestmark = pytest.mark.usefixtures("database")


def route(**settings: Any) -> Route:
    return Route.model_validate({"from": "https://app.example.com", "to": "http://127.0.0.1:8000", **settings})


LOADED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
IN_FORCE = SimpleNamespace(file="/etc/gate/config.yaml", checksum="0123456789abcdef", loaded=LOADED, problems=(), refused=None)


def pages_for(*routes: Route, configuration: SimpleNamespace = IN_FORCE, **settings: Any) -> AdminPages:
    proxy = SimpleNamespace(clusters=Clusters(routes), upstream_errors=UpstreamErrors())
    registers = (admin.register, authorize.admin.register, databroker.admin.session_admin.register)
    return AdminPages(
        *registers,
        options=SimpleNamespace(policy=routes, time_zone="UTC", decision_log_size=1),
        configuration=configuration,
        proxy=proxy,
        **settings,
    )


def test_each_of_several_upstreams_is_displayed_with_weight_and_health():
    several = Route.model_validate({"from": "https://a.example.com", "to": ["http://a.internal,3", "http://b.internal,1"]})
    check = {"timeout": "1s", "interval": "1s", "unhealthy_threshold": 1, "healthy_threshold": 1, "tcp_health_check": {}}
    watched = Route.model_validate({"from": "https://b.example.com", "to": "http://c.internal", "health_checks": [check]})
    text = visible_text(pages_for(several, watched).get("proxy/route/"))
    assert "http://a.internal, weight 3: not checked http://b.internal, weight 1: not checked" in text
    assert "http://c.internal, weight 1: healthy" in text


def test_the_configuration_in_force_is_named():
    text = visible_text(pages_for().get("proxy/route/"))
    assert "/etc/gate/config.yaml , checksum 0123456789abcdef , loaded 2 Jan 2026, 03:04:05 UTC ." in text
    assert "refused" not in text


def refused(*problems: Problem) -> SimpleNamespace:
    return SimpleNamespace(**{**vars(IN_FORCE), "problems": problems, "refused": LOADED})


def test_problems_of_rejected_file_are_displayed_with_locations():
    problems = Problem("policy[0].from", "is <wrong>", 3, 5, "gate.yaml"), Problem("", "can't be read")
    text = visible_text(pages_for(configuration=refused(*problems)).get("proxy/route/"))
    assert "rejected at 2 Jan 2026, 03:04:05 UTC" in text
    assert "gate.yaml:3:5 policy[0].from is <wrong>" in text
    assert "- - can't be read" in text
    assert "2 problems" in text


def test_first_of_many_problems_are_displayed():
    text = visible_text(
        pages_for(configuration=refused(*(Problem(f"policy[{number}].to", "is wrong") for number in range(101)))).get("proxy/route/")
    )
    assert "policy[99].to" in text
    assert "policy[100].to" not in text
    assert "101 problems; showing the first 100" in text


def test_the_index_has_an_entry_routes():
    index = pages_for().get("")
    assert '<a href="/admin/proxy/route/"' in index.content.decode()
    assert "Routes" in visible_text(index)


def test_configuration_without_routes_is_reported():
    response = pages_for().get("proxy/route/")
    assert response.status_code == 200
    assert "The configuration has no routes." in visible_text(response)


def test_the_page_looks_like_the_admin():
    response = pages_for(route()).get("proxy/route/")
    assert "admin/css/base.css" in response.content.decode()
    assert "Django administration" in visible_text(response)
    assert "Home › Routes" in visible_text(response)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ["https://app.example.com", "every path", "http://127.0.0.1:8000", "nobody", "default"]),
        ({"name": "the application"}, ["the application"]),
        ({"prefix": "/api/"}, ["prefix /api/"]),
        ({"path": "/exact"}, ["path /exact"]),
        ({"regex": "/v[0-9]+/.*"}, ["regex /v[0-9]+/.*"]),
        ({"to": None, "redirect": {"host_redirect": "new.example.com", "response_code": 302}}, ["host_redirect new.example.com", "302"]),
        ({"to": None, "redirect": {"https_redirect": True, "path_redirect": "/new"}}, ["redirect: https_redirect, path_redirect /new"]),
        ({"timeout": "90s"}, ["1m30s"]),
        ({"timeout": "0s"}, ["none"]),
        ({"pass_identity_headers": True}, ["yes"]),
        ({"allow_public_unauthenticated_access": True}, ["everyone, without sign-in"]),
        ({"allow_any_authenticated_user": True}, ["every signed-in user"]),
        (
            {"allowed_domains": ["a.org"], "allowed_groups": ["engineering"], "allowed_users": ["ann@b.org"]},
            ["e-mail addresses at a.org, or group engineering, or user ann@b.org"],
        ),
        ({"allowed_idp_claims": {"department": ["a", "b"]}}, ["claim department = a, or claim department = b"]),
        ({"cors_allow_preflight": True}, ["CORS preflight requests"]),
    ],
)
def test_route_has_text_description(settings, expected):
    keys = {key: value for key, value in settings.items() if value is not None}
    made = route(**keys) if settings.get("to", "") is not None else Route.model_validate({"from": "https://app.example.com", **keys})
    page = visible_text(pages_for(made).get("proxy/route/"))
    assert [phrase for phrase in expected if phrase not in page] == []


def test_routes_keep_their_order():
    page = visible_text(pages_for(route(prefix="/b"), route(prefix="/a"), route()).get("proxy/route/"))
    assert page.index("prefix /b") < page.index("prefix /a") < page.index("every path")
    assert "3 routes" in page


def test_many_routes_are_pages_of_a_hundred_and_found_by_name_address_and_id() -> None:
    routes = [route(**{"from": f"https://a{number:03}.example.com", "name": f"App {number}"}) for number in range(250)]
    site = pages_for(*routes)
    first, last = (visible_text(site.get("proxy/route/", p=page)) for page in ("1", "3"))
    assert "250 routes, here 1 to 100 Next" in first
    assert ("a000.example.com" in first, "a100.example.com" in first, "a249.example.com" in last) == (True, False, True)
    for wanted in ("A249", "app 249", routes[249].id):
        found = visible_text(site.get("proxy/route/", route=wanted))
        assert ("1 route" in found, "a249.example.com" in found, "a000.example.com" in found) == (True, True, False)
    assert "No matching routes" in visible_text(site.get("proxy/route/", route="<nothing>"))


def test_request_header_values_are_never_displayed():
    page = pages_for(route(set_request_headers={"X-Api-Key": "secret-value"})).get("proxy/route/").content.decode()
    assert "X-Api-Key" in page
    assert "secret-value" not in page


def test_configuration_value_cannot_become_markup():
    page = pages_for(route(name="<script>alert(1)</script>")).get("proxy/route/").content.decode()
    assert "alert(1)" in page
    assert "<script>alert(1)" not in page


def test_nothing_else_is_there():
    pages = pages_for(route())
    for page in ("proxy/route/add/", "proxy/route/1/change/", "proxy/route/1/delete/", "proxy/route/1/history/"):
        assert pages.get(page).status_code in (302, 404)
        assert "app.example.com" not in visible_text(pages.get(page))


def test_non_staff_user_sees_no_routes():
    assert pages_for(route(), is_staff=False).get("proxy/route/").status_code == 302


def test_admin_sign_in_page_discloses_nothing():
    assert apps_on_sign_in_page(admin.register) == []


def test_ineffective_public_and_policy_routes_are_visible_at_once():
    policy = [{"allow": {"domain": "corp.com"}}, {"mode": "shadow", "deny": {"groups": "<sales>"}}]
    displayed = pages_for(
        route(policy=policy), route(mode="shadow", allowed_users=["a@b.c"]), route(allow_public_unauthenticated_access=True)
    ).get("proxy/route/")
    text = visible_text(displayed)
    assert "allow: domain is corp.com deny: groups is <sales> (shadow mode)" in text
    assert "<sales>" not in displayed.content.decode()
    assert text.count("Shadow mode: not enforced") == 1
    assert text.count("Public everyone, without sign-in") == 1


def test_tcp_route_is_displayed_with_its_protocol():
    tcp = Route.model_validate({"from": "tcp+https://db.example.com:5432", "to": "tcp://db.internal:5432"})
    row = admin.build_row(tcp)
    assert (row.address, row.match, row.target, row.timeout) == (
        "tcp+https://db.example.com:5432",
        "tunnels (CONNECT)",
        "tcp://db.internal:5432",
        "none; idle 8h",
    )
    limited = Route.model_validate({"from": "tcp+https://a.b:1", "to": "tcp://b:1", "timeout": "12h", "idle_timeout": "0s"})
    assert admin.build_row(limited).timeout == "12h; idle none"
    assert "tunnels (CONNECT)" in visible_text(pages_for(tcp).get("proxy/route/"))


def test_route_links_to_its_decisions_and_users():
    displayed = route(**{"from": "https://a.example.com"}, allowed_groups=["staff & more"], allowed_domains=["example.com"])
    site = pages_for(displayed)
    page = site.get("proxy/route/").content.decode()
    assert f'href="/admin/authorize/loggeddecision/?route_id={displayed.id}"' in page
    assert f'href="/admin/authorize/loggeddecision/?route_id={displayed.id}&amp;outcome=forbidden"' in page
    assert 'href="/admin/databroker/user/?q=staff+%26+more"' in page
    assert 'href="/admin/databroker/user/?q=%40example.com"' in page
    assert site.get("authorize/loggeddecision/", route_id=displayed.id, outcome="forbidden").status_code == 200
    assert site.get("databroker/user/", q="@example.com").status_code == 200
