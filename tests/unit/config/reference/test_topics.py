"""Every key has one topic, and a key without a topic is reported."""

import pytest

from config.reference import topics
from config.reference.setting_catalog import settings_by_topic


@pytest.mark.parametrize("listed", [topics.SETTINGS, topics.ROUTE_KEYS], ids=["settings", "route keys"])
def test_no_key_is_listed_more_than_once(listed: dict[str, tuple[str, ...]]) -> None:
    names = [name for of_topic in listed.values() for name in of_topic]
    assert sorted(set(names)) == sorted(names)


def test_a_key_without_a_topic_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "SETTINGS", {**topics.SETTINGS, "ACME": ()})
    with pytest.raises(ValueError, match=r"autocert.*: no topic"):
        settings_by_topic()


def test_a_key_that_is_not_declared_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "SETTINGS", {**topics.SETTINGS, "More": ("nothing",)})
    with pytest.raises(ValueError, match=r"^nothing: not declared\."):
        settings_by_topic()
