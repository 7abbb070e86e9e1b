"""Do administrators find decisions and their reasons, and does nobody else?"""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import databroker.admin
from authorize.admin import register
from authorize.policy.decision import Outcome
from authorize.state import route_table
from tests.support.admin import AdminPages, text_of
from tests.support.options import make_options
from tests.unit.authorize.builders import user
from tests.unit.authorize.logged import CHECKSUM, POLICY, log_decision

LOG = "authorize/loggeddecision/"


@pytest.fixture
def pages(database: None, tmp_path: Path):
    log_decision(tmp_path, "a1", user("bob@corp.com", subject="2"))
    log_decision(tmp_path, "b2", user(), "/wages")

    def made(**facts: Any) -> AdminPages:
        options = make_options(tmp_path, policy=POLICY)
        authorize = SimpleNamespace(routes=route_table(options))
        return AdminPages(
            register,
            databroker.admin.register,
            options=options,
            authorize=authorize,
            configuration=SimpleNamespace(checksum=CHECKSUM),
            **facts,
        )

    return made


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({}, ["/wages", "/a"]),
        ({"q": "bob"}, ["/a"]),
        ({"q": "a1"}, ["/a"]),
        ({"q": "Wages"}, ["/wages", "/a"]),
        ({"q": "192.0.2.1"}, ["/wages", "/a"]),
        ({"outcome__exact": Outcome.ALLOWED.value}, ["/wages"]),
        ({"q": "after:2027-01-15T07:00 before:2027-01-15T08:00"}, []),
        ({"q": "after:2027-01-15T08:00 bob"}, ["/a"]),
        ({"q": "after:soon"}, []),
    ],
)
def test_the_log_is_searched(pages, query: dict[str, str], found: list[str]) -> None:
    shown = pages().get(LOG, **query)
    assert shown.status_code == 200
    assert [row.url.removeprefix("app.example.com") for row in shown.context_data["cl"].result_list] == found


def test_every_link_of_the_log_has_words(pages) -> None:
    page = pages().get(LOG).render().content.decode()
    assert "By in shadow" in " ".join(page.split())
    assert not [link for link in re.findall(r"<a [^>]*>\s*</a>", page) if " title=" not in link and " class=" not in link]


@pytest.mark.parametrize(
    ("words", "found", "index"),
    [
        ("AB" * 16, ["/named"], "(request_id=?)"),
        (f"{'ab' * 16} bob", [], "(request_id=?)"),
        ("cd" * 16, ["/by/" + "cd" * 16], ""),
        ("192.0.2.1 wages cd", ["/by/" + "cd" * 16], ""),
        ("192.0.2.10", [], ""),
        ("bob@corp.com", ["/a"], "(person=?)"),
        ("ob@corp.com", ["/a"], ""),
    ],
)
def test_a_word_is_looked_for_where_its_form_says(pages, tmp_path: Path, words: str, found: list[str], index: str) -> None:
    log_decision(tmp_path, "ab" * 16, user(), "/named")
    log_decision(tmp_path, "ef" * 16, user(), "/by/" + "cd" * 16)
    shown = pages().get(LOG, q=words).context_data["cl"]
    assert [row.url.removeprefix("app.example.com") for row in shown.result_list] == found
    assert index in shown.queryset.explain()


def test_a_decision_s_page_is_its_explanation(pages) -> None:
    staff = pages()
    said = text_of(staff.get(LOG + "explain/", request="a1"))
    for words in (
        "Forbidden",
        "allowed_users",
        "(decisive)",
        "one of ann@corp.com",
        "What would let it in",
        "session: changed",
        "policy[0]",
    ):
        assert words in said
    row = staff.get(LOG, q="a1").context_data["cl"].result_list[0]
    assert text_of(staff.get(f"{LOG}{row.pk}/change/")).partition("Ask about")[0] == said.partition("Ask about")[0]
    assert re.search(r'<a href="/admin/databroker/user/[^"]+/change/">', staff.get(f"{LOG}{row.pk}/change/").content.decode())
    assert staff.get(f"{LOG}999/change/").status_code == 302


def test_an_invented_request_is_explained(pages) -> None:
    said = text_of(pages().get(LOG + "explain/", url="https://app.example.com/open/x", headers="X-A: b", address="10.0.0.1"))
    assert "Allowed: the route is open to everyone" in said
    assert said.count("Allowed") == 1


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ({"request": "zz"}, "not in the decision log"),
        ({"url": "app"}, "can't be used"),
        ({"url": "https://app.example.com", "address": "home"}, "must be an address"),
        ({"url": "https://app.example.com", "at": "soon"}, "must be a time"),
        ({"url": "https://app.example.com", "headers": "x"}, "name: value"),
        ({"url": "https://app.example.com/" + "a" * 5000}, "longer than"),
    ],
)
def test_what_can_not_be_explained_says_why(pages, query: dict[str, str], problem: str) -> None:
    staff = pages()
    assert problem in text_of(staff.get(LOG + "explain/", **query))
    answer = staff.get(LOG + "explain.json", **query)
    assert answer.status_code in (400, 404)
    assert problem in answer.json()["error"]


def test_programs_of_administrators_get_json(pages) -> None:
    answer = pages().get(LOG + "explain.json", request="a1")
    assert (answer.status_code, answer["Cache-Control"]) == (200, "no-store")
    assert (answer.json()["outcome"], answer.json()["person"]["email"]) == ("forbidden", "bob@corp.com")


@pytest.mark.parametrize("page", ["", "explain/", "explain.json"])
def test_nobody_else_learns_anything(pages, page: str) -> None:
    answer = pages(is_staff=False).get(LOG + page, request="a1")
    assert answer.status_code in (302, 403)
    assert b"bob@corp.com" not in answer.content
    assert b"app.example.com" not in answer.content


def test_the_log_can_not_be_changed(pages) -> None:
    staff = pages()
    assert staff.get(LOG + "add/").status_code == 403
    assert "delete" not in text_of(staff.get(LOG)).lower()
    assert staff.get(LOG + "1/delete/").status_code in (302, 403)


def test_what_somebody_sent_is_shown_as_text(pages, tmp_path: Path) -> None:
    log_decision(tmp_path, "c3", user(name="<script>", email="<b>@corp.com"), "/%3Cscript%3E")
    staff = pages()
    for page, query in ((LOG, {}), (LOG + "explain/", {"request": "c3"}), (LOG + "explain/", {"url": 'https://"><script>'})):
        assert b"<script>" not in staff.get(page, **query).content
