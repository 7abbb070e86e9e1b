"""Access of demo users to each site, as configuration keys and as text."""

import pytest

from examples.demo.people import ALICE, BOB, CAROL, SITES


@pytest.mark.parametrize(
    ("name", "visitors", "in_words"),
    [
        ("hello", (ALICE, BOB, CAROL), "any signed-in user"),
        ("chat", (ALICE, BOB), "group engineering or sales (alice, bob)"),
        ("files", (ALICE,), "group engineering (alice)"),
        ("finance", (ALICE,), "only alice"),
        ("public", None, "everyone"),
    ],
)
def test_each_site_says_who_may_enter(name: str, visitors: object, in_words: str) -> None:
    site = next(site for site in SITES if site.name == name)
    assert (site.visitors, site.who()) == (visitors, in_words)


def test_the_provider_says_each_persons_groups() -> None:
    assert [person.claims()["groups"] for person in (ALICE, BOB, CAROL)] == [["engineering"], ["sales"], []]
