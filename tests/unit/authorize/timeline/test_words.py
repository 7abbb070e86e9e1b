"""Is a word of a search looked for where its form says, by an index where there is one, and never through more than is bearable?"""

from pathlib import Path

import pytest

from authorize.models import LoggedDecision
from authorize.timeline import words
from authorize.timeline.words import with_words
from tests.unit.authorize.builders import user
from tests.unit.authorize.logged import log_decision


@pytest.fixture(autouse=True)
def logged(database: None, tmp_path: Path) -> None:
    log_decision(tmp_path, "a1", user("bob@corp.com", subject="2"))
    log_decision(tmp_path, "b2", user(), "/wages")
    log_decision(tmp_path, "ab" * 16, user(), "/named")
    log_decision(tmp_path, "ef" * 16, user(), "/by/" + "cd" * 16)


@pytest.mark.parametrize(
    ("text", "found", "index"),
    [
        ("AB" * 16, ["/named"], "(request_id=?)"),
        (f"{'ab' * 16} bob", [], "(request_id=?)"),
        ("cd" * 16, ["/by/" + "cd" * 16], ""),
        ("192.0.2.1 wages cd", ["/by/" + "cd" * 16], ""),
        ("192.0.2.10", [], ""),
        ("bob@corp.com", ["/a"], "(person=?)"),
        ("ob@corp.com", ["/a"], ""),
        ("BOB a1", ["/a"], ""),
    ],
)
def test_a_word_is_looked_for_where_its_form_says(text: str, found: list[str], index: str) -> None:
    rows = with_words(LoggedDecision.objects.all(), text)
    assert [row.url.removeprefix("app.example.com") for row in rows] == found
    assert index in rows.explain()


def test_of_a_large_log_the_newest_are_looked_through_for_what_no_index_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "LOOKED_THROUGH", 2)
    for number, row in enumerate(LoggedDecision.objects.order_by("pk")):
        LoggedDecision.objects.filter(pk=row.pk).update(at=row.at.replace(second=number))
    rows = LoggedDecision.objects.all()
    assert [row.request_id for row in with_words(rows, "corp").order_by("pk")] == ["b2", "ab" * 16, "ef" * 16]
    assert [row.request_id for row in with_words(rows, "bob@corp.com")] == ["a1"], "an index has it, however old it is"
    assert with_words(rows, "ob@corp.com").count() == 0


def test_more_words_than_anybody_writes_are_not_looked_for() -> None:
    assert with_words(LoggedDecision.objects.all(), "corp " * 8 + "nothing " * 1000).count() == 4


def test_a_moment_that_is_none_is_an_error() -> None:
    with pytest.raises(ValueError, match="before:soon: 'soon' must be a time"):
        with_words(LoggedDecision.objects.all(), "bob before:soon")
