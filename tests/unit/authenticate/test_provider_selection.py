"""Choice of a user's provider, as far as gate can decide it without a question to the user."""

from pathlib import Path
from typing import Any

import pytest

from authenticate.provider_selection import Providers, ProviderSelector
from config.settings.identity_providers import PLACEHOLDERS
from databroker.records import SessionRecord
from foundation.errors import BadRequest
from tests.support.options import make_options


def entry(id: str, *domains: str) -> dict[str, Any]:
    settings = {"provider": "oidc", "url": f"https://idp.{id}.example", "client_id": "gate", "client_secret": "secret"}
    return {"id": id, **settings, "domains": [*domains]}


@pytest.fixture
def choice(tmp_path: Path) -> ProviderSelector:
    entries = [entry("corp", "corp.example", "both.example"), entry("partner", "partner.example", "both.example"), entry("none")]
    return ProviderSelector(make_options(tmp_path, **{**dict.fromkeys(PLACEHOLDERS), "identity_providers": entries}))


def ids(providers: Providers) -> list[str]:
    return [provider.id for provider in providers]


def session_of(provider: str) -> SessionRecord:
    return SessionRecord("s1", f"{provider}/1", "1", provider, 1000.0, 2000.0)


def test_a_link_names_some_of_those_that_are_configured_or_all(choice: ProviderSelector) -> None:
    assert ids(choice.candidates("")) == ["corp", "partner", "none"]
    assert ids(choice.candidates("none corp")) == ["corp", "none"]
    assert ids(choice.candidates("gone corp")) == ["corp"]
    with pytest.raises(BadRequest, match="no longer configured"):
        choice.candidates("gone")


def test_a_wish_is_for_one_of_them(choice: ProviderSelector) -> None:
    assert choice.require(choice.candidates(""), "partner").id == "partner"
    with pytest.raises(BadRequest, match="in the link"):
        choice.require(choice.candidates("corp none"), "partner")


@pytest.mark.parametrize(
    ("named", "session", "cookie", "left"),
    [
        ("", None, b"", None),
        ("corp", None, b"__Host-_gate_idp=partner", "corp"),
        ("", None, b"__Host-_gate_idp=partner", "partner"),
        ("corp none", None, b"__Host-_gate_idp=partner", None),
        ("", None, b"_gate_idp=partner", None),
        ("", None, b"__Host-_gate_idp=partner; __Host-_gate_idp=corp", None),
        ("", None, b"__Host-_gate_idp=\xff", None),
        ("", "none", b"__Host-_gate_idp=partner", "none"),
        ("corp partner", "none", b"__Host-_gate_idp=partner", None),
    ],
)
def test_no_question_where_one_provider_remains(
    choice: ProviderSelector, named: str, session: str | None, cookie: bytes, left: str | None
) -> None:
    found = choice.default_for(choice.candidates(named), session_of(session) if session else None, [cookie])
    assert (found.id if found is not None else None) == left


@pytest.mark.parametrize(
    ("address", "id"),
    [
        ("ann@corp.example", "corp"),
        ("Ann@Corp.Example ", "corp"),
        ("ann@both.example", None),
        ("ann@sub.corp.example", None),
        ("corp.example", "corp"),
        ("", None),
        ("@", None),
        ("a" * 400 + "@corp.example", None),
    ],
)
def test_address_belongs_to_the_one_provider_authoritative_for_it(choice: ProviderSelector, address: str, id: str | None) -> None:
    found = choice.by_email_domain(choice.candidates(""), address)
    assert (found.id if found is not None else None) == id


def test_remembered_choice_is_per_host_and_can_be_removed(choice: ProviderSelector, tmp_path: Path) -> None:
    (remembered,), (forgotten,) = choice.remember_cookies("corp"), choice.clear_cookies()
    assert remembered.startswith("__Host-_gate_idp=corp; ")
    assert all(word in remembered for word in ("HttpOnly", "Secure", "SameSite=Lax", "Path=/"))
    assert "Domain" not in remembered
    assert "Max-Age=0" in forgotten
    sole = ProviderSelector(make_options(tmp_path))
    assert (sole.remember_cookies("oidc"), sole.clear_cookies()) == ([], [])
