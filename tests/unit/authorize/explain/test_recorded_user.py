"""A recorded user is explained as their next request, or sign-in, would find them."""

from pathlib import Path
from typing import Any

import pytest

from authorize.explain.recorded_user import DEACTIVATED, NO_SESSION, RecordedUser, SeveralUsersError, recorded_user
from databroker.records import DIRECTORY_USER, SESSION, USER, DirectoryUser
from tests.support.options import make_options
from tests.unit.authorize.broker import BreakableBroker

NOW = 1500.0


@pytest.fixture
def broker() -> BreakableBroker:
    return BreakableBroker(lambda: NOW)


async def found(broker: BreakableBroker, directory: Path, *ids: str, **settings: Any) -> RecordedUser | None:
    return await recorded_user(ids or ("oidc/1",), broker, make_options(directory, **settings), NOW)


async def test_a_live_session_comes_first(broker: BreakableBroker, tmp_path: Path) -> None:
    await broker.sign_in(claims={"team": "blue"})
    await broker.join("oidc/1", "g1")
    user = await found(broker, tmp_path)
    assert user is not None
    assert user.identity is not None
    assert (user.identity.groups, dict(user.identity.claims), user.note) == (("g1",), {"team": ("blue",)}, "")


async def test_without_one_a_sign_in_of_now_counts(broker: BreakableBroker, tmp_path: Path) -> None:
    await broker.sign_in()
    await broker.join("oidc/1", "g1")
    await broker.delete(SESSION, "s1")
    user = await found(broker, tmp_path)
    assert user is not None
    assert user.identity is not None
    assert (user.identity.user_id, user.identity.groups, user.note) == ("oidc/1", ("g1",), NO_SESSION)


async def test_a_sign_in_of_a_deactivated_user_is_refused(broker: BreakableBroker, tmp_path: Path) -> None:
    await broker.sign_in()
    await broker.delete(SESSION, "s1")
    await broker.put(DIRECTORY_USER, "oidc/1", DirectoryUser("oidc/1", is_deactivated=True).to_data())
    assert await found(broker, tmp_path) == RecordedUser(None, DEACTIVATED)


@pytest.mark.parametrize("change", [{"issuer": "https://before.example.com"}, {"claims": 5}])
async def test_a_record_of_another_issuer_or_without_sense_is_no_user(
    broker: BreakableBroker, tmp_path: Path, change: dict[str, Any]
) -> None:
    await broker.sign_in()
    await broker.delete(SESSION, "s1")
    record = await broker.get(USER, "oidc/1")
    assert record is not None
    await broker.put(USER, "oidc/1", {**record.data, **change})
    assert await found(broker, tmp_path) is None


async def test_unknown_id_is_not_a_user(broker: BreakableBroker, tmp_path: Path) -> None:
    assert await found(broker, tmp_path, "oidc/nobody", "service_account/nobody") is None


async def test_a_step_up_of_the_live_session_counts_and_that_of_a_session_that_ended_does_not(
    broker: BreakableBroker, tmp_path: Path
) -> None:
    await broker.sign_in(claims={"acr": "mfa"}, last_sign_in_at=1000.0)
    live = await found(broker, tmp_path)
    await broker.delete(SESSION, "s1")
    ended = await found(broker, tmp_path)
    assert live is not None
    assert live.identity is not None
    assert ended is not None
    assert ended.identity is not None
    assert (live.identity.claims.get("acr"), ended.identity.claims.get("acr")) == (("mfa",), None)


@pytest.mark.parametrize("live", [("oidc/1", "oidc/2"), ("oidc/1",), ()])
async def test_of_several_users_none_is_chosen(broker: BreakableBroker, tmp_path: Path, live: tuple[str, ...]) -> None:
    for number, id in enumerate(("oidc/1", "oidc/2")):
        await broker.sign_in(f"s{number}", id)
        if id not in live:
            await broker.delete(SESSION, f"s{number}")
    with pytest.raises(SeveralUsersError, match="2 users match: oidc/1, oidc/2"):
        await found(broker, tmp_path, "oidc/1", "oidc/2")


async def test_another_users_session_is_never_read(broker: BreakableBroker, tmp_path: Path) -> None:
    await broker.sign_in()
    await broker.sign_in("s2", "oidc/2", claims={"team": "red"})
    options = make_options(tmp_path)
    for sessions in (None, ["s1", "s2"]):
        user = await recorded_user(["oidc/1"], broker, options, NOW, sessions)
        assert user is not None
        assert user.identity is not None
        assert (user.identity.user_id, dict(user.identity.claims)) == ("oidc/1", {})
