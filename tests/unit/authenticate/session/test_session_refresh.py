"""Session refresh: one at a time across processes; a session that ended during it stays ended; a provider error changes nothing."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from authenticate.session.session_refresh import RefreshInProgress, RefreshStep, SessionEnded, SessionRefresh
from databroker.records import SESSION, USER
from foundation.errors import BrokerError, ProviderError
from foundation.telemetry import metrics
from tests.support.fake_idp import ABSENT, OTHER_RSA_KEY, PEOPLE, Answer, signed
from tests.support.session_refresh import RefreshEnvironment


async def expiring(one: RefreshEnvironment, **changes: object) -> None:
    await one.signed_in(**changes)
    one.clock.ahead += 3550


async def test_a_refresh_is_written_with_its_claims(one: RefreshEnvironment) -> None:
    await expiring(one)
    one.idp.bend.userinfo = {"name": "Alice Brown"}
    renewed = await one.refresh.renew("session", RefreshStep.TOKENS)
    assert await one.session() == renewed
    assert (renewed.claims["name"], renewed.unverified_id_token) == ("Alice Brown", "")
    assert renewed.access_token_expires_at == pytest.approx(one.clock() + 3600, abs=2)
    user = await one.user()
    assert user.name == "Alice Brown"
    assert user.last_sign_in_at == pytest.approx(renewed.issued_at)
    record = await one.broker.get(SESSION, "session")
    assert record is not None
    assert record.expires == renewed.expires_at


@pytest.mark.parametrize("rotates", [True, False])
async def test_hundred_concurrent_calls_in_two_processes_reach_provider_once(processes: list[RefreshEnvironment], rotates: bool) -> None:
    idp = processes[0].idp
    idp.rotates = rotates
    await expiring(processes[0])
    outcomes = await asyncio.gather(
        *(processes[number % 2].refresh.renew("session", RefreshStep.TOKENS) for number in range(100)), return_exceptions=True
    )
    assert {type(outcome).__name__ for outcome in outcomes} <= {"SessionRecord", "RefreshInProgress"}
    assert (idp.refreshed, idp.reused) == (1, 0)
    assert await processes[1].session() is not None


async def test_request_after_refresh_does_not_repeat_it(processes: list[RefreshEnvironment]) -> None:
    await expiring(processes[0])
    for process in processes:
        await process.refresh.renew("session", RefreshStep.TOKENS)
    assert processes[0].idp.refreshed == 1


async def test_sign_out_during_a_refresh_wins_and_the_new_tokens_are_revoked(one: RefreshEnvironment) -> None:
    await expiring(one)
    one.idp.bend.answers["/token"] = lambda: replace(real(), delay=0.05)

    def real() -> Answer:
        del one.idp.bend.answers["/token"]
        return one.idp._token(one.idp.requests[-1])

    renewal = asyncio.create_task(one.refresh.renew("session", RefreshStep.TOKENS))
    while one.idp.count("/token") == 0:
        await asyncio.sleep(0.001)
    await one.broker.delete(SESSION, "session")
    with pytest.raises(SessionEnded):
        await renewal
    assert await one.session() is None
    assert one.idp.count("/revoke") == 2


async def test_concurrent_change_is_preserved(one: RefreshEnvironment) -> None:
    session = await one.signed_in()
    record = await one.broker.get(SESSION, "session")
    assert record is not None
    await one.broker.put(SESSION, "session", replace(session, user_agent="changed").to_data(), expires=session.expires_at)
    written = await one.refresh._write(record, lambda current: replace(current, manually_refreshed_at=5.0))
    assert (written.data["user_agent"], written.data["manually_refreshed_at"]) == ("changed", 5.0)


@pytest.mark.parametrize("answer", [Answer(500), Answer(503), Answer(400, b'{"error": "invalid_client"}'), Answer(200, b"<html>"),
                                    Answer(429), Answer(302, headers={"Location": "/token"})])  # fmt: skip
async def test_trouble_at_the_provider_changes_nothing(one: RefreshEnvironment, answer: Answer) -> None:
    await expiring(one)
    before = await one.session()
    one.idp.bend.answers["/token"] = answer
    with pytest.raises(ProviderError):
        await one.refresh.renew("session", RefreshStep.TOKENS)
    assert await one.session() == before
    one.idp.bend.answers.clear()
    assert (await one.refresh.renew("session", RefreshStep.TOKENS)).refresh_token


async def test_tokens_are_not_lost_where_the_claims_can_not_be_read(one: RefreshEnvironment) -> None:
    await expiring(one)
    one.idp.bend.answers["/userinfo"] = Answer(500)
    with pytest.raises(ProviderError):
        await one.refresh.renew("session", RefreshStep.TOKENS)
    one.idp.bend.answers.clear()
    assert (await one.refresh.renew("session", RefreshStep.TOKENS)).unverified_id_token == ""
    assert (one.idp.refreshed, one.idp.reused) == (1, 0)


async def test_new_tokens_are_written_when_the_store_comes_back(one: RefreshEnvironment, monkeypatch: pytest.MonkeyPatch) -> None:
    """The provider has forgotten the old refresh token: without the new one the session would end with the next refresh."""
    await expiring(one)
    put, failures = one.broker.put, [BrokerError("away"), BrokerError("done, response lost")]

    async def failing_first(type: str, id: str, data: dict, **options: object) -> object:
        if type != SESSION or not failures:
            return await put(type, id, data, **options)
        if len(failures) == 1:
            await put(type, id, data, **options)
        raise failures.pop(0)

    monkeypatch.setattr(one.broker, "put", failing_first)
    renewed = await one.refresh.renew("session", RefreshStep.TOKENS)
    assert await one.session() == renewed
    one.clock.ahead += 3600
    await one.refresh.renew("session", RefreshStep.TOKENS)
    assert (one.idp.refreshed, one.idp.reused) == (2, 0)


async def test_session_fields_of_later_release_are_preserved(one: RefreshEnvironment) -> None:
    await expiring(one)
    record = await one.broker.get(SESSION, "session")
    assert record is not None
    await one.broker.put(SESSION, "session", {**record.data, "of_a_later_release": 1}, expires=record.expires)
    await one.refresh.renew("session", RefreshStep.TOKENS)
    record = await one.broker.get(SESSION, "session")
    assert record is not None
    assert record.data["of_a_later_release"] == 1


async def test_a_refused_refresh_token_ends_the_session(one: RefreshEnvironment) -> None:
    await expiring(one, refresh_token="revoked")
    with pytest.raises(SessionEnded):
        await one.refresh.renew("session", RefreshStep.TOKENS)
    assert await one.session() is None


INVALID: dict[str, dict[str, object]] = {
    "another issuer": {"claims": {"iss": "https://evil.example"}},
    "another audience": {"claims": {"aud": "another"}},
    "issued to another": {"claims": {"azp": "another"}},
    "another nonce": {"claims": {"nonce": "another"}},
    "another person": {"claims": {"sub": "bob"}},
    "no person": {"claims": {"sub": ABSENT}},
    "another access token": {"claims": {"at_hash": "another"}},
    "no algorithm": {"header": {"alg": "none"}},
    "an unknown key": {"header": {"kid": "another"}},
    "another kind of token": {"header": {"typ": "at+jwt"}},
    "another signature": {"token": lambda header, claims: signed(header, claims, OTHER_RSA_KEY, "RS256")},
    "no token": {"token": lambda header, claims: "no.to.ken"},
}


@pytest.mark.parametrize("bend", INVALID.values(), ids=INVALID)
async def test_invalid_refreshed_id_token_ends_session(one: RefreshEnvironment, bend: dict[str, object]) -> None:
    """The token is invalid, not late: gate stores nothing that came with it, and does not retry."""
    before = metrics.registry.get_sample_value("gate_session_refresh_failures_total", {"reason": "invalid"}) or 0.0
    await expiring(one)
    for name, value in bend.items():
        setattr(one.idp.bend, name, value)
    with pytest.raises(SessionEnded):
        await one.refresh.renew("session", RefreshStep.TOKENS)
    assert await one.session() is None
    assert metrics.registry.get_sample_value("gate_session_refresh_failures_total", {"reason": "invalid"}) == before + 1


async def test_unavailable_keys_delay_and_do_not_invalidate(one: RefreshEnvironment) -> None:
    await expiring(one)
    one.idp.kid, one.idp.bend.answers["/jwks"] = "key-2", Answer(500)
    with pytest.raises(ProviderError):
        await one.refresh.renew("session", RefreshStep.TOKENS)
    one.idp.bend.answers.clear()
    one.clock.ahead += 3  # a failure is remembered for two seconds
    assert (await one.refresh.renew("session", RefreshStep.TOKENS)).unverified_id_token == ""


async def test_keys_that_changed_a_moment_after_they_were_fetched_are_fetched_again(one: RefreshEnvironment) -> None:
    """Junk that anybody may send must not use up the look that a refreshed token has."""
    await expiring(one)
    discovery = await one.client.discovery()
    await one.client.key_set.refetched_keys(discovery.jwks_uri)
    one.idp.kid = "key-2"
    assert (await one.refresh.renew("session", RefreshStep.TOKENS)).unverified_id_token == ""


async def test_different_user_ends_session(one: RefreshEnvironment) -> None:
    await expiring(one)
    one.idp.bend.userinfo = {"sub": "bob", **PEOPLE["bob"]}
    with pytest.raises(SessionEnded):
        await one.refresh.renew("session", RefreshStep.CLAIMS)
    assert await one.session() is None


async def test_a_withdrawn_access_token_is_replaced_where_there_is_a_refresh_token(one: RefreshEnvironment) -> None:
    await one.signed_in(access_token="withdrawn")
    assert (await one.refresh.renew("session", RefreshStep.CLAIMS)).access_token != "withdrawn"
    assert one.idp.refreshed == 1


async def test_a_withdrawn_access_token_ends_a_session_that_has_nothing_else(one: RefreshEnvironment) -> None:
    await one.signed_in(access_token="withdrawn", refresh_token="")
    with pytest.raises(SessionEnded):
        await one.refresh.renew("session", RefreshStep.CLAIMS)
    assert await one.session() is None


async def test_an_expired_access_token_ends_no_session_without_a_refresh_token(one: RefreshEnvironment) -> None:
    await one.signed_in(access_token="expired", refresh_token="", access_token_expires_at=one.clock() - 1)
    with pytest.raises(ProviderError):
        await one.refresh.renew("session", RefreshStep.CLAIMS)
    assert await one.session() is not None


async def test_unchanged_claims_are_not_written_again(one: RefreshEnvironment) -> None:
    await one.signed_in()
    before = await one.broker.get(SESSION, "session")
    await one.refresh.renew("session", RefreshStep.CLAIMS)
    assert await one.broker.get(SESSION, "session") == before


async def test_an_answer_that_comes_late_replaces_no_newer_record_of_the_user(
    one: RefreshEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    await one.signed_in()
    one.idp.bend.userinfo = {"name": "Alice of before"}
    claims = one.client.fetch_claims

    async def late(*args: Any, **more: Any) -> Any:
        answer = await claims(*args, **more)
        newer = replace(await one.user(), name="Alice of now")
        await one.broker.put(USER, newer.id, newer.to_data())
        return answer

    monkeypatch.setattr(one.client, "fetch_claims", late)
    await one.refresh.renew("session", RefreshStep.CLAIMS)
    assert (await one.user()).name == "Alice of now"


async def test_the_refresh_of_an_older_session_leaves_the_record_of_a_newer_sign_in(one: RefreshEnvironment) -> None:
    await one.signed_in()
    newer = replace(await one.user(), email="renamed@corp.example", last_sign_in_at=one.clock() + 60)
    await one.broker.put(USER, newer.id, newer.to_data())
    one.idp.bend.userinfo = {"name": "Alice Brown"}
    await one.refresh.renew("session", RefreshStep.CLAIMS)
    assert await one.user() == newer


async def test_concurrent_refresh_is_reported_to_the_second_caller(processes: list[RefreshEnvironment]) -> None:
    await expiring(processes[0])
    async with processes[0].refresh._exclusive("session"):
        with pytest.raises(RefreshInProgress):
            await processes[1].refresh.renew("session", RefreshStep.TOKENS)
    assert await processes[1].refresh.renew("session", RefreshStep.TOKENS)


async def test_giving_up_ends_only_sessions_not_refreshed_since(one: RefreshEnvironment) -> None:
    await one.signed_in()
    seen = await one.session()
    assert seen is not None
    one.clock.ahead = 3601
    await one.refresh.renew("session", RefreshStep.TOKENS)
    await one.refresh.end_if_expired("session", seen.tokens_received_at, ProviderError("away"))
    renewed = await one.session()
    assert renewed is not None
    await one.refresh.end_if_expired("session", renewed.tokens_received_at, ProviderError("away"))
    assert await one.session() is None


async def test_by_hand_is_remembered_and_refreshes_at_once(one: RefreshEnvironment) -> None:
    await one.signed_in()
    renewed = await one.refresh.renew("session", RefreshStep.TOKENS, manual=True)
    assert renewed.manually_refreshed_at == pytest.approx(one.clock(), abs=2)
    assert one.idp.refreshed == 1


async def test_each_provider_has_its_own_share(one: RefreshEnvironment) -> None:
    """A provider that does not respond delays no other provider's refresh."""
    await one.signed_in(id="first")
    await one.signed_in(id="second")
    of_two = SessionRefresh(lambda session: one.client, one.broker, one.clock, max_per_provider=1)
    one.idp.bend.holds["/userinfo"] = asyncio.Event()
    request_count = one.idp.count("/userinfo")
    held = asyncio.create_task(of_two.renew("first", RefreshStep.CLAIMS))
    while one.idp.count("/userinfo") == request_count:
        await asyncio.sleep(0.001)
    with pytest.raises(RefreshInProgress):
        await of_two.renew("second", RefreshStep.CLAIMS)
    one.idp.bend.holds["/userinfo"].set()
    await held
    assert (await of_two.renew("second", RefreshStep.CLAIMS)).id == "second"
