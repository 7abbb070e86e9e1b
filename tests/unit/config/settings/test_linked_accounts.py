"""Linked accounts: configurations that link accounts, and those that are rejected because they link none."""

from typing import Any

import pytest

from config.settings.linked_accounts import VERIFIED_EMAIL
from tests.unit.config.conftest import Load, Problems
from tests.unit.config.settings.test_identity_providers import entry, several, without

LINK: dict[str, Any] = {"link_by": VERIFIED_EMAIL}
SHARED = ["corp.example", "shared.example"]


def test_linking_requires_explicit_setting(load: Load) -> None:
    providers = load(**several(entry("corp", domains=SHARED), entry("partner", domains=SHARED))).providers
    assert [provider.links_by_email for provider in providers.values()] == [False, False]


def test_each_entry_enables_linking_for_itself(load: Load) -> None:
    entries = (entry("corp", domains=SHARED, **LINK), entry("partner", domains=["shared.example"], **LINK), entry("third", domains=SHARED))
    assert [provider.links_by_email for provider in load(**several(*entries)).providers.values()] == [True, True, False]


@pytest.mark.parametrize(
    ("entries", "places"),
    [
        ([entry("corp", **LINK), entry("partner", **LINK)], [0, 1]),
        ([entry("corp", domains=SHARED, **LINK), entry("partner", domains=SHARED)], [0]),
        ([entry("corp", domains=SHARED, **LINK), entry("partner", domains=["sub.corp.example", "evil-corp.example"], **LINK)], [0, 1]),
        ([entry("corp", domains=[], **LINK), entry("partner", domains=[], **LINK)], [0, 1]),
        ([entry("corp", domains=SHARED, **LINK), entry("partner", domains=SHARED, **LINK), entry("third", **LINK)], [2]),
        ([entry("corp", **LINK)], [0]),
        ([without(entry("corp", **LINK), "domains")], [0]),
    ],
)
def test_link_needs_two_providers_authoritative_for_one_domain(
    problems: Problems, entries: list[dict[str, Any]], places: list[int]
) -> None:
    found = problems(**several(*entries))
    assert list(found) == [f"identity_providers[{index}].link_by" for index in places]
    assert all("has no effect: no" in message for message in found.values())


@pytest.mark.parametrize("written", ["email", "sub", True, ["verified_email"], "Verified_Email"])
def test_there_is_one_way_to_link(problems: Problems, written: Any) -> None:
    found = problems(**several(entry("corp", domains=SHARED, link_by=written), entry("partner", domains=SHARED, **LINK)))
    assert "must be one of verified_email" in found["identity_providers[0].link_by"]


def test_address_is_trusted_where_operator_declares_it(load: Load, problems: Problems) -> None:
    entries = (entry("corp", domains=SHARED, trust_email=True, **LINK), entry("partner", domains=SHARED, **LINK))
    assert [provider.trusts_email for provider in load(**several(*entries)).providers.values()] == [True, False]
    found = problems(**several(entry("corp", domains=SHARED, trust_email=True), entry("partner", domains=SHARED)))
    assert "no effect without link_by" in found["identity_providers[0].trust_email"]


def test_no_provider_can_use_the_id_of_linked_users(problems: Problems) -> None:
    assert "is reserved" in problems(**several(entry(VERIFIED_EMAIL), entry("partner")))["identity_providers[0].id"]
