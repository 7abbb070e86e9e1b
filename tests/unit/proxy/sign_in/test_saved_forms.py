"""A form that comes without a session: what is kept of whose, what the upstream receives in the end, and how often."""

import asyncio
from collections.abc import AsyncIterator
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from databroker.records import SAVED_FORM
from foundation.errors import BrokerError
from proxy.sign_in import saved_forms
from proxy.sign_in.saved_forms import MAX_FORM_BYTES, SLOTS_PER_CLIENT
from tests.support.asgi import NAVIGATION, Answer, incoming_from
from tests.support.proxied import Proxied, proxied
from tests.support.signed_in import sign_in
from tests.support.upstream import Exchange, RawUpstream

HOST = "app.example.com"
URL = f"https://{HOST}/orders?year=2026&q=a%20b"
FORM = {**NAVIGATION, "origin": f"https://{HOST}", "sec-fetch-site": "same-origin", "content-type": "application/x-www-form-urlencoded"}
BODY = b"item=caf%C3%A9&item=2&note=%00"


@pytest.fixture
async def gate(tmp_path: Path) -> AsyncIterator[Proxied]:
    async with proxied(tmp_path, {"allow_any_authenticated_user": True}, {"from": "https://other.example.com"}) as running:
        yield running


async def send(gate: Proxied, body: bytes = BODY, url: str = URL, **headers: str) -> Answer:
    changed = {name.replace("_", "-"): value for name, value in headers.items()}
    sent = {**FORM, "content-length": str(len(body)), **changed}
    return await gate.send(url, body, method="POST", headers={name: value for name, value in sent.items() if value != "-"})


def saved_form(answer: Answer) -> tuple[str, str]:
    """(id, Cookie header) of the form that this answer says is kept."""
    cookies = SimpleCookie()
    for value in answer.values("set-cookie"):
        cookies.load(value)
    (name,) = (name for name in cookies if "_form_" in name)
    return name.partition("_form_")[2], f"{name}={cookies[name].value}"


def is_saved(answer: Answer) -> bool:
    return any("_form_" in value for value in answer.values("set-cookie"))


async def press(gate: Proxied, id: str, cookie: str, url: str = URL, **headers: str) -> Answer:
    session = await sign_in(gate.broker, gate.options)
    return await send(gate, f"_gate_form={id}".encode(), url, cookie=f"{session.cookie(HOST)}; {cookie}", **headers)


async def test_a_form_without_a_session_arrives_once_with_the_same_bytes(gate: Proxied) -> None:
    first = await send(gate)
    id, cookie = saved_form(first)
    assert first.status == 302
    way_back = parse_qs(urlsplit(first.header("location")).query)["gate_redirect_uri"]
    assert way_back == [f"https://{HOST}/.gate/form/{id}"]
    assert (await press(gate, id, cookie)).body == b"ok"
    (received,) = gate.canary.requests
    assert (received.line, received.body) == (b"POST /orders?year=2026&q=a%20b HTTP/1.1", BODY)
    assert received.values(b"content-type") == [b"application/x-www-form-urlencoded"]
    assert received.values(b"content-length") == [str(len(BODY)).encode()]
    assert received.values(b"cookie") == []
    again = await press(gate, id, cookie)
    assert (again.status, len(gate.canary.requests)) == (410, 1)
    assert b"already sent" in again.body
    assert await gate.broker.page(SAVED_FORM, "", 10) == []


async def test_two_presses_at_the_same_time_send_it_once(gate: Proxied) -> None:
    """The second finds the form still there: only the first may have it."""
    id, cookie = saved_form(await send(gate))
    (record,) = await gate.broker.page(SAVED_FORM, "", 10)
    await press(gate, id, cookie)
    await gate.broker.put(SAVED_FORM, record.id, record.data, expires=record.expires)
    assert (await press(gate, id, cookie)).status == 410
    assert len(gate.canary.requests) == 1


async def test_a_form_with_files_keeps_its_bytes(gate: Proxied) -> None:
    body = b'--x\r\nContent-Disposition: form-data; name="f"; filename="a.bin"\r\n\r\n' + bytes(range(256)) * 4000 + b"\r\n--x--\r\n"
    id, cookie = saved_form(await send(gate, body, content_type="multipart/form-data; boundary=x"))
    assert (await press(gate, id, cookie)).status == 200
    (received,) = gate.canary.requests
    assert received.body == body
    assert received.values(b"content-type") == [b"multipart/form-data; boundary=x"]


@pytest.mark.parametrize(
    "headers",
    [
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"sec_fetch_site": "none"},
        {"sec_fetch_site": "cross-site", "origin": "null"},
        {"origin": "https://evil.example"},
        {"origin": "https://other.example.com"},
        {"sec_fetch_site": "-", "origin": "https://evil.example"},
        {"sec_fetch_site": "-", "origin": "null"},
        {"sec_fetch_site": "-", "origin": f"http://{HOST}"},
        {"sec_fetch_site": "-", "origin": "-"},
    ],
)
async def test_cross_origin_form_is_not_saved(gate: Proxied, headers: dict[str, str]) -> None:
    """Sent again by us, it would pass for the application's own: cookies and Origin would be right."""
    answer = await send(gate, **headers)
    assert (answer.status, is_saved(answer)) == (302, False)


@pytest.mark.parametrize("headers", [{"origin": "null"}, {"origin": "-"}, {"sec_fetch_site": "-"}])
async def test_browsers_declare_same_origin_in_several_ways(gate: Proxied, headers: dict[str, str]) -> None:
    assert is_saved(await send(gate, **headers))


@pytest.mark.parametrize(
    ("body", "headers", "reason"),
    [
        (BODY, {"content_type": "text/plain"}, b"not a form"),
        (BODY, {"content_encoding": "gzip"}, b"not a form"),
        (b"x" * (MAX_FORM_BYTES + 1), {}, b"larger than 1 MiB"),
        (b"x" * (MAX_FORM_BYTES + 1), {"content_length": "-", "transfer_encoding": "chunked"}, b"larger than 1 MiB"),
    ],
)
async def test_sender_of_unsaved_form_is_warned_before_signing_in(gate: Proxied, body: bytes, headers: Any, reason: bytes) -> None:
    answer = await send(gate, body, **headers)
    assert (answer.status, is_saved(answer)) == (401, False)
    assert reason in answer.body
    assert b"Sign in</a>" in answer.body
    assert await gate.broker.page(SAVED_FORM, "", 10) == []


async def test_a_script_is_answered_as_ever(gate: Proxied) -> None:
    answer = await send(gate, sec_fetch_mode="cors")
    assert (answer.status, is_saved(answer)) == (401, False)
    assert b"not kept" not in answer.body


async def test_one_address_fills_a_few_places_and_another_has_its_own(gate: Proxied, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [await send(gate) for _ in range(SLOTS_PER_CLIENT + 1)]
    assert not is_saved(answers[-1])
    assert b"storage for kept forms is full" in answers[-1].body
    assert len(await gate.broker.page(SAVED_FORM, "", 100)) <= SLOTS_PER_CLIENT
    headers = {**FORM, "content-length": str(len(BODY))}
    assert is_saved(await gate.send(URL, BODY, method="POST", headers=headers, client="192.0.2.9"))


async def test_ipv6_network_counts_as_one_address(gate: Proxied) -> None:
    headers = {**FORM, "content-length": str(len(BODY))}
    answers = [await gate.send(URL, BODY, method="POST", headers=headers, client=f"2001:db8::{n}") for n in range(1, SLOTS_PER_CLIENT + 2)]
    assert not is_saved(answers[-1])


async def test_many_at_a_time_are_not_read(gate: Proxied) -> None:
    for number in range(saved_forms.MAX_CONCURRENT_READS):
        assert gate.plane.saved_forms._read_limit.acquire(f"192.0.2.{number}")
    assert b"storage for kept forms is full" in (await send(gate)).body


async def test_slow_sender_does_not_occupy_other_slots(gate: Proxied) -> None:
    headers, goes_on = {**FORM, "content-length": str(len(BODY))}, asyncio.Event()

    async def turns() -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    async def slowly() -> dict[str, Any]:
        await goes_on.wait()
        return {"type": "http.request", "body": BODY, "more_body": False}

    def slow_ones(count: int) -> list[asyncio.Task[None]]:
        senders = (incoming_from(URL, method="POST", headers=headers, client=f"2001:db8::{number:x}") for number in range(count))
        return [asyncio.create_task(gate.plane(sender, slowly, Answer().send)) for sender in senders]

    slow = slow_ones(saved_forms.MAX_CONCURRENT_READS)
    await turns()
    assert is_saved(await gate.send(URL, BODY, method="POST", headers=headers, client="192.0.2.9"))
    goes_on.set()
    await asyncio.gather(*slow)
    assert all(gate.plane.saved_forms._read_limit.acquire(f"2001:db8::{number}") for number in range(saved_forms.MAX_CONCURRENT_READS)), (
        "all have left"
    )


async def test_the_store_holds_nothing_readable(gate: Proxied) -> None:
    await send(gate, b"password=correct-horse")
    (record,) = await gate.broker.page(SAVED_FORM, "", 10)
    assert "correct-horse" not in str(record.data)
    assert record.expires is not None


async def test_without_its_cookie_the_button_is_an_ordinary_form(gate: Proxied) -> None:
    """Another browser that knows the id sends nothing but what it sends."""
    id, _ = saved_form(await send(gate))
    assert (await press(gate, id, "theirs=1")).status == 200
    assert gate.canary.requests[0].body == f"_gate_form={id}".encode()


async def test_a_cookie_of_another_form_opens_nothing(gate: Proxied) -> None:
    (one, _), (_, cookie) = saved_form(await send(gate)), saved_form(await send(gate))
    assert (await press(gate, one, cookie)).status == 410
    renamed = cookie.partition("_form_")[0] + f"_form_{one}=" + cookie.partition("=")[2]
    assert (await press(gate, one, renamed)).status == 410
    assert gate.canary.requests == []


async def test_cross_origin_button_submits_nothing(gate: Proxied) -> None:
    id, cookie = saved_form(await send(gate))
    assert (await press(gate, id, cookie, sec_fetch_site="same-site", origin="https://other.example.com")).status == 200
    assert gate.canary.requests[0].body == f"_gate_form={id}".encode()
    assert len(await gate.broker.page(SAVED_FORM, "", 10)) == 1


async def test_a_form_goes_nowhere_but_where_it_was_sent(gate: Proxied) -> None:
    id, cookie = saved_form(await send(gate))
    assert (await press(gate, id, cookie, url=f"https://{HOST}/delete")).status == 410
    assert gate.canary.requests == []


async def test_body_resembling_the_button_is_forwarded_unchanged(gate: Proxied) -> None:
    _, cookie = saved_form(await send(gate))
    session = await sign_in(gate.broker, gate.options)
    body = b"x" * 33
    answer = await send(gate, body, cookie=f"{session.cookie(HOST)}; {cookie}")
    assert (answer.status, gate.canary.requests[0].body) == (200, body)


async def test_client_leaving_during_submission_leaves_nothing_running(tmp_path: Path) -> None:
    """The upstream waits for the full length of a body that never comes, so gate must close the connection."""

    async def patient(conversation: Exchange) -> None:
        await conversation.head()
        await conversation.ended()

    async def leaves() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async with proxied(tmp_path, {"allow_any_authenticated_user": True, "timeout": "0s"}, canary=RawUpstream(script=patient)) as gate:
        id, cookie = saved_form(await send(gate))
        session = await sign_in(gate.broker, gate.options)
        headers = {**FORM, "content-length": str(len(f"_gate_form={id}")), "cookie": f"{session.cookie(HOST)}; {cookie}"}
        async with asyncio.timeout(5):
            await gate.plane(incoming_from(URL, method="POST", headers=headers), leaves, Answer().send)
        assert len(await gate.broker.page(SAVED_FORM, "", 10)) == 1


async def test_a_form_that_was_spent_is_sent_though_its_record_can_not_be_deleted(gate: Proxied, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(*_: object) -> None:
        raise BrokerError("away")

    id, cookie = saved_form(await send(gate))
    monkeypatch.setattr(gate.broker, "delete", fails)
    assert (await press(gate, id, cookie)).status == 200
    assert gate.canary.requests[0].body == BODY
    assert (await press(gate, id, cookie)).status == 410


async def test_signed_out_user_retains_saved_form(gate: Proxied) -> None:
    id, cookie = saved_form(await send(gate))
    again = await send(gate, f"_gate_form={id}".encode(), cookie=cookie)
    newer, newer_cookie = saved_form(again)
    assert newer != id
    assert (await press(gate, newer, newer_cookie)).status == 200
    assert gate.canary.requests[0].body == BODY


async def test_form_forwarded_by_envoy_alone_is_not_saved(tmp_path: Path) -> None:
    """The button's own body would reach the application, and the form would be lost."""
    route = {"allow_any_authenticated_user": True, "upstream_http2": True}
    async with proxied(tmp_path, route, data_plane="envoy") as gate:
        answer = await send(gate)
        assert (answer.status, is_saved(answer)) == (401, False)
        assert b"does not accept kept forms" in answer.body


async def test_a_session_that_lives_keeps_nothing(gate: Proxied) -> None:
    ann = await sign_in(gate.broker, gate.options)
    answer = await send(gate, cookie=ann.cookie(HOST))
    assert (answer.status, is_saved(answer)) == (200, False)
    assert await gate.broker.page(SAVED_FORM, "", 10) == []
