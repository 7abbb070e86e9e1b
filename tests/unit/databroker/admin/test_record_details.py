"""Does a page get the facts and claims of a record, and never what opens something?"""

from dataclasses import fields

import pytest

from databroker.admin.record_details import (
    DISCLOSED_FIELDS,
    REDACTED,
    claims,
    fetch_or_message,
    render_claims,
    render_session_facts,
    session_facts,
)
from databroker.records import Record, SessionRecord
from foundation.errors import BrokerError

MARK = "planted-8c1f"
# Session fields that are not secret.  A new field counts as secret until it is added here and in details.py.
HARMLESS = {
    "id",
    "linked_session_ids",
    "user_id",
    "subject",
    "issuer",
    "claims",
    "userinfo_claims",
    "client_address",
    "user_agent",
    *DISCLOSED_FIELDS,
}


def record(**data: object) -> Record:
    return Record("session", "s", data, 1, 0.0)


def test_only_named_fields_are_displayed() -> None:
    planted = {field.name: f"{MARK}-{field.name}." for field in fields(SessionRecord)}
    facts = session_facts(planted)
    assert set(facts) == {*DISCLOSED_FIELDS, "can_be_refreshed"}
    secret = {field.name for field in fields(SessionRecord)} - HARMLESS
    assert secret == {"id_token", "access_token", "refresh_token", "unverified_id_token", "agent"}
    assert [name for name in secret if planted[name] in str(facts)] == []


def test_claims_come_in_order_and_as_text() -> None:
    recorded_claims = {"name": "Ann", "groups": ["a", "b"], "age": 7, "email_verified": True, "nothing": None}
    assert claims({"claims": recorded_claims}) == [
        ("age", "7"),
        ("email_verified", "true"),
        ("groups", "a, b"),
        ("name", "Ann"),
        ("nothing", "null"),
    ]


TIME = '<time datetime="2023-11-14T22:13:20+00:00" data-form="full">14 Nov 2023, 22:13:20 UTC</time>'


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("auth_time", 1_700_000_000, TIME),
        ("exp", 1_700_000_000.5, TIME),
        ("iat", "soon", "soon"),
        ("iat", 1e300, "1e+300"),
        ("number", 1_700_000_000, "1700000000"),
        ("roles", [1, True, "x"], "1, true, x"),
        ("roles", [], "[]"),
        ("address", {"country": "DE"}, '{"country": "DE"}'),
        ("deep", [["a"]], '[["a"]]'),
    ],
)
def test_claim_is_displayed_in_readable_form(name: str, value: object, text: str) -> None:
    assert claims({"claims": {name: value}}) == [(name, text)]


@pytest.mark.parametrize("data", [{}, {"claims": None}, {"claims": "x"}, {"claims": ["x"]}])
def test_a_record_without_claims_has_none(data: dict) -> None:
    assert claims(data) == []


@pytest.mark.parametrize("name", ["nonce", "at_hash", "c_hash", "s_hash", "sid", "jti", "_claim_sources", "_claim_names"])
def test_correlation_ids_of_tokens_are_omitted(name: str) -> None:
    assert claims({"claims": {name: MARK, "sub": "a"}}) == [("sub", "a")]


@pytest.mark.parametrize("name", ["access_token", "api_key", "apiKey", "client_secret", "Password", "assertion", "session_cookie"])
def test_claim_named_secret_is_hidden(name: str) -> None:
    assert claims({"claims": {name: MARK}}) == [(name, REDACTED)]
    assert MARK not in str(claims({"claims": {"nested": {"deep": [{name: MARK}]}}}))


def test_a_token_is_hidden_wherever_a_provider_repeats_it() -> None:
    data = {"access_token": MARK, "claims": {"picture": f"https://a.example/?t={MARK}", "list": [MARK], "name": "Ann"}}
    assert claims(data) == [("list", REDACTED), ("name", "Ann"), ("picture", REDACTED)]


def test_values_resembling_signed_tokens_are_hidden() -> None:
    assert claims({"claims": {"hint": "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln"}}) == [("hint", REDACTED)]


def test_a_claim_of_a_megabyte_is_cut() -> None:
    assert len(claims({"claims": {"a": "x" * 1_000_000}})[0][1]) < 2000


def test_provider_value_cannot_become_markup() -> None:
    markup = str(render_claims((record(claims={"<b>": "<script>"}),)))
    assert "<script>" not in markup
    assert "&lt;script&gt;" in markup


def test_session_has_text_description() -> None:
    data = {"provider": "google", "access_token_expires_at": 1_700_000_000.0, "tokens_received_at": 0.0, "refresh_token": MARK}
    markup = str(render_session_facts((record(**data),)))
    for text in ("signed in at</b>: google", "14 Nov 2023, 22:13:20", "last refreshed</b>: -", "can be refreshed</b>: yes"):
        assert text in markup
    assert MARK not in markup
    assert "ended" in render_session_facts((None,))


@pytest.mark.parametrize("seconds", [None, "x", -1.0, 1e300, float("inf"), float("nan")])
def test_strange_times_are_none(seconds: object) -> None:
    assert "access token until</b>: -" in str(render_session_facts((record(access_token_expires_at=seconds),)))


def test_unavailable_broker_is_reported() -> None:
    def away() -> tuple[None]:
        raise BrokerError("no route")

    for render in (render_claims, render_session_facts):
        assert "data broker is unavailable" in render(fetch_or_message(away))
