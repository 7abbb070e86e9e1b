"""API authentication: only a valid service account token in the one Authorization header is accepted."""

import pytest
from structlog.testing import capture_logs

from authenticate.api.api_authenticator import LAST_USED_INTERVAL
from databroker.models import ServiceAccount
from databroker.records import SERVICE_ACCOUNT
from databroker.service_account_store import ServiceAccounts
from databroker.store.memory import MemoryStore
from foundation.errors import BrokerError
from tests.support.api_site import ApiSite
from tests.support.database import in_database, row

Headers = list[tuple[bytes, bytes]]


async def status(api: ApiSite, headers: Headers, path: str = "routes") -> int:
    return (await api.site.answer("GET", f"/.gate/api/{path}", headers, b"")).status


def bearer(token: str) -> tuple[bytes, bytes]:
    return b"authorization", f"Bearer {token}".encode()


async def test_a_token_gets_in_by_either_scheme(api: ApiSite) -> None:
    assert await status(api, [bearer(api.token)]) == 200
    assert await status(api, [(b"authorization", b"Gate " + api.token.encode())]) == 200


async def test_a_token_counts_in_the_one_header_alone(api: ApiSite) -> None:
    valid = bearer(api.token)
    for headers in (
        [],
        [valid, valid],
        [valid, (b"authorization", b"Basic Og==")],
        [(b"authorization", valid[1] + b", " + valid[1])],
        [(b"authorization", valid[1] + b" x")],
        [(b"proxy-authorization", valid[1])],
        [(b"x-api-key", api.token.encode())],
        [(b"cookie", b"token=" + api.token.encode())],
        [(b"authorization", b"Basic " + api.token.encode())],
        [(b"authorization", api.token.encode())],
    ):
        assert await status(api, headers) == 401, headers
    for name in ("gate_session", "access_token", "token"):
        assert await status(api, [], f"routes?{name}={api.token}") == 401


async def test_user_session_is_not_accepted(api: ApiSite) -> None:
    alice = api.site.browser()
    await alice.sign_in("alice")
    assert alice.cookies
    for method in ("GET", "POST", "DELETE"):
        path = {"GET": "sessions", "POST": "end_sessions", "DELETE": "sessions/x"}[method]
        assert (await alice.get(f"/.gate/api/{path}", method=method)).status == 401


async def test_refuses_forged_tokens(api: ApiSite) -> None:
    other = await ServiceAccounts(MemoryStore(api.site.clock), api.site.clock).create("robot", [], None, "another gate")
    flipped = api.token[:-7] + ("A" if api.token[-7] != "A" else "B") + api.token[-6:]
    for token in (other, flipped, api.token[:-1], api.token + "A", api.token.replace("robot", "root"), "gate_sa_robot_", "gate_sa_"):
        with capture_logs() as logs:
            assert await status(api, [bearer(token)]) == 401, token
        assert token not in str(logs)


async def test_token_error_is_only_logged(api: ApiSite) -> None:
    await api.accounts.revoke("robot")
    with capture_logs() as logs:
        problem = await api.problem(401, "GET", "routes")
    assert "revoked" in problem["detail"]
    assert [entry["reason"] for entry in logs if "reason" in entry] == ["service account robot: not found or revoked"]
    assert "robot" not in str(problem)


async def test_an_account_that_ended_is_out_at_once(api: ApiSite) -> None:
    short = await api.account("short", days=1)
    assert await status(api, [bearer(short)]) == 200
    api.site.clock.ahead = 86401
    assert await status(api, [bearer(short)]) == 401
    renewed = await api.accounts.rotate("robot")
    assert await status(api, [bearer(api.token)]) == 401
    assert await status(api, [bearer(renewed)]) == 200


async def test_a_record_that_makes_no_sense_is_no_account(api: ApiSite) -> None:
    record = await api.site.broker.get(SERVICE_ACCOUNT, "robot")
    assert record is not None
    for change in ({"name": "other"}, {"permissions": 7}, {"may_everything": True}, {"expires": "never"}):
        await api.site.broker.put(SERVICE_ACCOUNT, "robot", {**record.data, **change})
        assert await status(api, [bearer(api.token)]) == 401, change


async def test_account_has_only_granted_permissions(api: ApiSite) -> None:
    token = await api.account("reader", ["routes:read"])
    assert await status(api, [bearer(token)]) == 200
    assert await status(api, [bearer(await api.account("nobody", []))]) == 403
    problem = await api.problem(403, "DELETE", "sessions/x", token=token)
    assert problem["permission"] == "sessions:end"
    assert "sessions:end" in problem["detail"]
    response = await api.ask("DELETE", "sessions/x", token=token)
    assert response.headers["www-authenticate"].startswith('Bearer realm="gate", error="insufficient_scope"')


@pytest.mark.parametrize("value", [b"Bearer \xff\xfe", b"Bearer a\tb", b"", b"Bearer ", b"bearer", b"Bearer " + b"A" * 60_000])
async def test_strange_headers_are_nobodys(api: ApiSite, value: bytes) -> None:
    assert await status(api, [(b"authorization", value)]) == 401


async def test_the_last_use_of_an_account_is_noted_now_and_then(api: ApiSite) -> None:
    await in_database(lambda: row(ServiceAccount, id="robot"))

    async def seen() -> float:
        used = (await in_database(lambda: ServiceAccount.objects.get(pk="robot"))).last_seen_at
        return used.timestamp() if used else 0.0

    await api.done("GET", "routes")
    first = await seen()
    assert first
    api.site.clock.ahead = LAST_USED_INTERVAL / 2
    await api.done("GET", "routes")
    assert await seen() == first
    api.site.clock.ahead = LAST_USED_INTERVAL + 1
    await api.done("GET", "routes")
    assert await seen() > first


async def test_calls_succeed_without_the_tables(api: ApiSite, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(seen: object) -> None:
        raise BrokerError("no such table")

    monkeypatch.setattr("authenticate.api.api_authenticator.write_last_seen", away)
    assert await status(api, [bearer(api.token)]) == 200
