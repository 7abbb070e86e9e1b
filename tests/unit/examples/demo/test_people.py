"""Access of demo users to each site, as configuration keys and as text."""

import pytest

from examples.demo.people import ALICE, BOB, CAROL, SITES


@pytest.mark.parametrize(
    ("name", "visitors", "text"),
    [
        ("hello", (ALICE, BOB, CAROL), "any signed-in user"),
        ("chat", (ALICE, BOB), "group engineering or sales (alice, bob)"),
        ("files", (ALICE,), "group engineering (alice)"),
        ("finance", (ALICE,), "only alice"),
        ("public", None, "everyone"),
    ],
)
def test_each_site_declares_its_policy(name: str, visitors: object, text: str) -> None:
    site = next(site for site in SITES if site.name == name)
    assert (site.visitors, site.describe_visitors()) == (visitors, text)


def test_provider_returns_each_user_s_groups() -> None:
    assert [user.claims()["groups"] for user in (ALICE, BOB, CAROL)] == [["engineering"], ["sales"], []]
