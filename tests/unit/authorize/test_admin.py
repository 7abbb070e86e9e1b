"""Administrators find decisions and their reasons, and other users do not."""

import re
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.admin.utils import quote
from django.http import HttpResponse
from django.utils import timezone

import databroker.admin.session_admin
import proxy.admin
from authorize.admin import register
from authorize.explain import replay
from authorize.models import LoggedDecision
from authorize.policy.decision import Outcome
from authorize.policy.reasons import Reason
from authorize.route_settings import route_table
from tests.support.admin import AdminPages, visible_text
from tests.support.options import make_options
from tests.unit.authorize.builders import user
from tests.unit.authorize.logged import APP, CHECKSUM, POLICY, log_decision

LOG = "authorize/loggeddecision/"


@pytest.fixture
def pages(database: None, tmp_path: Path):
    log_decision(tmp_path, "a1", user("bob@corp.com", subject="2"))
    log_decision(tmp_path, "b2", user(), "/wages")

    def made(**facts: Any) -> AdminPages:
        options = make_options(tmp_path, policy=POLICY)
        known = {"options": options, "authorize": SimpleNamespace(routes=route_table(options))}
        registers = (register, databroker.admin.session_admin.register, proxy.admin.register)
        return AdminPages(*registers, **{**known, "configuration": SimpleNamespace(checksum=CHECKSUM), **facts})

    return made


def paths_in(page: HttpResponse) -> list[str]:
    return re.findall(r'class="asked" [^>]*>GET app\.example\.com([^<]*)<', page.content.decode())


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({}, ["/wages", "/a"]),
        ({"q": "bob"}, ["/a"]),
        ({"q": "a1"}, ["/a"]),
        ({"q": "Wages"}, ["/wages", "/a"]),
        ({"q": "192.0.2.1"}, ["/wages", "/a"]),
        ({"outcome": Outcome.ALLOWED.value}, ["/wages"]),
        ({"route": "Wages", "user": "bob@corp.com"}, ["/a"]),
        ({"q": "after:2027-01-15T07:00 before:2027-01-15T08:00"}, []),
        ({"q": "after:2027-01-15T08:00 bob"}, ["/a"]),
        ({"q": "after:soon"}, []),
    ],
)
def test_the_log_is_searched(pages, query: dict[str, str], found: list[str]) -> None:
    page = pages().get(LOG, **query)
    assert page.status_code == 200
    assert paths_in(page) == found


def test_every_link_has_text(pages) -> None:
    page = pages().get(LOG).content.decode()
    assert not [link for link in re.findall(r"<a [^>]*>\s*</a>", page) if " title=" not in link and " class=" not in link]


def test_decision_links_to_explanation_user_and_route(pages) -> None:
    row = LoggedDecision.objects.get(request_id="b2")
    page = pages().get(LOG, q="b2").content.decode()
    assert f'href="/admin/authorize/loggeddecision/{row.pk}/change/"' in page
    assert f'href="/admin/databroker/user/{quote(row.user_id)}/change/"' in page
    assert f'href="/admin/proxy/route/?route={row.route_id}"' in page


def test_decisions_stand_under_their_day_and_hour_in_the_zone_of_the_reader(pages) -> None:
    staff = pages()
    assert "Friday, 15 January 2027 08:00 UTC 2 shown 08:00:00 allowed ann@corp.com" in visible_text(staff.get(LOG))
    assert "Friday, 15 January 2027 13:00 IST" in visible_text(staff.get(LOG, zone="Asia/Kolkata"))
    assert "13:30:00 allowed" in visible_text(staff.get(LOG)), "the choice is kept"
    found = {"from": "2027-01-15T13:30", "to": "2027-01-15T13:31"}
    assert paths_in(staff.get(LOG, **found)) == ["/wages", "/a"]
    assert paths_in(staff.get(LOG, **found, zone="UTC")) == []


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"outcome": "<b>"}, "<b> is no outcome"),
        ({"from": "soon"}, "soon is no"),
        ({"from": "0001-01-01T00:00", "zone": "Asia/Tokyo"}, "0001-01-01T00:00 is no"),
        ({"q": "after:soon"}, "after:soon: 'soon' must be a time"),
        ({"zone": "Mars/Olympus"}, "Mars/Olympus is no time zone"),
        ({"zone": "../../etc/passwd"}, "../../etc/passwd is no time zone"),
        ({"q": "no such words"}, "No matching decisions. Clear filters"),
        ({"user": "a\x00b"}, "No matching decisions."),
    ],
)
def test_invalid_filters_and_empty_results_are_reported(pages, query: dict[str, str], message: str) -> None:
    page = pages().get(LOG, **query)
    assert page.status_code == 200
    assert message in visible_text(page)
    assert b"<b>" not in page.content


def test_empty_log_has_explanation(pages, tmp_path: Path) -> None:
    LoggedDecision.objects.all().delete()
    assert "No decisions yet" in visible_text(pages().get(LOG))


def test_disabled_log_has_explanation(pages, tmp_path: Path) -> None:
    LoggedDecision.objects.all().delete()
    assert "The decision log is disabled: decision_log_size is 0." in visible_text(
        pages(options=make_options(tmp_path, decision_log_size=0)).get(LOG)
    )


def test_a_decision_s_page_is_its_explanation(pages) -> None:
    staff = pages()
    text = visible_text(staff.get(LOG + "explain/", request="a1"))
    for expected in (
        "Forbidden",
        "allowed_users",
        "(decisive)",
        "one of ann@corp.com",
        "How to get access",
        "session: changed",
        "policy[0]",
    ):
        assert expected in text
    row = LoggedDecision.objects.get(request_id="a1")
    assert visible_text(staff.get(f"{LOG}{row.pk}/change/")).partition("Ask about")[0] == text.partition("Ask about")[0]
    assert re.search(r'<a href="/admin/databroker/user/[^"]+/change/">', staff.get(f"{LOG}{row.pk}/change/").content.decode())
    assert staff.get(f"{LOG}999/change/").status_code == 302


def test_an_invented_request_is_explained(pages) -> None:
    text = visible_text(pages().get(LOG + "explain/", url="https://app.example.com/open/x", headers="X-A: b", address="10.0.0.1"))
    assert f"Allowed: {Reason.PUBLIC.value}" in text
    assert text.count("Allowed") == 1


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ({"request": "zz"}, "not in the decision log"),
        ({"url": "app"}, "nvalid URL"),
        ({"url": "https://app.example.com", "address": "home"}, "must be an address"),
        ({"url": "https://app.example.com", "at": "soon"}, "must be a time"),
        ({"url": "https://app.example.com", "headers": "x"}, "name: value"),
        ({"url": "https://app.example.com/" + "a" * 5000}, "longer than"),
    ],
)
def test_explain_errors_are_reported(pages, query: dict[str, str], problem: str) -> None:
    staff = pages()
    assert problem in visible_text(staff.get(LOG + "explain/", **query))
    answer = staff.get(LOG + "explain.json", **query)
    assert answer.status_code in (400, 404)
    assert problem in answer.json()["error"]


def test_administrators_get_json(pages) -> None:
    answer = pages().get(LOG + "explain.json", request="a1")
    assert (answer.status_code, answer["Cache-Control"]) == (200, "no-store")
    assert (answer.json()["outcome"], answer.json()["user"]["email"]) == ("forbidden", "bob@corp.com")


@pytest.mark.parametrize("page", ["", "explain/", "replay/", "explain.json"])
def test_other_users_are_denied(pages, page: str) -> None:
    answer = pages(is_staff=False).get(LOG + page, request="a1")
    assert answer.status_code in (302, 403)
    assert b"bob@corp.com" not in answer.content
    assert b"app.example.com" not in answer.content


def recent(**facts: Any) -> None:
    """As if what is logged had been decided a moment ago."""
    LoggedDecision.objects.update(decided_at=timezone.now(), **facts)


def test_replay_lists_changed_outcomes(pages, tmp_path: Path) -> None:
    recent()
    staff = pages(
        authorize=SimpleNamespace(routes=route_table(make_options(tmp_path, policy=[{**APP, "allowed_users": ["bob@corp.com"]}])))
    )
    form = visible_text(staff.get(LOG + "replay/"))
    assert "with the current configuration" in form
    assert "decisions replayed" not in form, "only the button asks for it"
    text = visible_text(staff.post(LOG + "replay/", hours="1"))
    assert "2 of 2 decisions replayed." in text
    assert "Newly denied Route User Requests Latest Reason Wages ann@corp.com 1 Explain" in text
    assert "Newly allowed Route User Requests Latest Reason Wages bob@corp.com 1 Explain" in text


@pytest.mark.parametrize(
    ("form", "summary"),
    [
        ({}, "2 of 2 decisions replayed. No outcome changed."),
        ({"user": "bob@corp.com"}, "1 of 1 decision replayed."),
        ({"route": "Wages"}, "2 of 2 decisions"),
        ({"route": "nowhere"}, "No matching decisions."),
        ({"hours": "0"}, "from 1 to 744."),
        ({"hours": "9" * 4000}, "must be a number"),
        ({"hours": "<b>"}, "<b> must be"),
    ],
)
def test_replay_is_filtered_by_route_user_and_time(pages, form: dict[str, str], summary: str) -> None:
    recent()
    page = pages().post(LOG + "replay/", **{"hours": "24", **form})
    assert summary in visible_text(page)
    assert b"<b>" not in page.content


def test_decisions_without_inputs_are_counted(pages) -> None:
    recent(outcome="unavailable")
    text = visible_text(pages().post(LOG + "replay/", hours="1"))
    assert "Not replayed 2 decisions: 2: the data broker" in text


def test_an_older_decision_is_not_among_those_of_the_last_hours(pages) -> None:
    LoggedDecision.objects.update(decided_at=timezone.now() - timedelta(hours=2))
    staff = pages()
    assert "No matching decisions." in visible_text(staff.post(LOG + "replay/", hours="1"))
    assert "2 of 2 decisions replayed." in visible_text(staff.post(LOG + "replay/", hours="3"))


def test_replay_reports_limit_and_rejects_concurrent_replay(pages, monkeypatch: pytest.MonkeyPatch) -> None:
    recent()
    monkeypatch.setattr(replay, "MAX_DECISIONS", 1)
    staff = pages()
    text = visible_text(staff.post(LOG + "replay/", hours="1"))
    assert "1 of 1 decision" in text
    assert "newest 1 decisions" in text
    with replay._one_at_a_time:
        assert "another replay is running" in visible_text(staff.post(LOG + "replay/", hours="1"))


def test_a_decision_leads_to_the_replay_of_its_route(pages) -> None:
    page = pages().get(LOG + "explain/", request="a1").content.decode()
    assert f'name="route_id" value="{LoggedDecision.objects.get(request_id="a1").route_id}"' in page
    staff_only = pages(is_staff=False)
    assert staff_only.post(LOG + "replay/", hours="1").redirect_chain


def test_the_log_can_not_be_changed(pages) -> None:
    staff = pages()
    assert staff.get(LOG + "add/").status_code == 403
    assert "delete" not in visible_text(staff.get(LOG)).lower()
    assert staff.get(LOG + "1/delete/").status_code in (302, 403)


def test_client_input_is_escaped(pages, tmp_path: Path) -> None:
    log_decision(tmp_path, "c3", user(name="<script>", email="<b>@corp.com"), "/%3Cscript%3E")
    staff = pages()
    for page, query in ((LOG, {}), (LOG + "explain/", {"request": "c3"}), (LOG + "explain/", {"url": 'https://"><script>'})):
        assert b"<script>" not in staff.get(page, **query).content
