"""Every way to end a session: the weaker sessions that it replaced end with it, and no other user's."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIHandler
from django.http import HttpRequest

from authenticate.session.session_refresh import RefreshStep, SessionEnded
from databroker.admin.end_sessions_action import EndSessionsAction
from databroker.records import SESSION, Record
from foundation.errors import ProviderError
from tests.support.authenticate_site import APP, ATTEMPT, ORIGIN, Browser, Site
from tests.support.cookies import of_jar
from tests.support.fake_idp import Answer, FakeIdP

TOKEN = "0123456789abcdefghijklmnopqrstuv"


@pytest.fixture
async def site(tmp_path: Path, idp: FakeIdP, django_pages: ASGIHandler, database: None) -> AsyncIterator[Site]:
    site = Site(tmp_path, idp, django_pages, scim_token=TOKEN)
    await site.service.start()
    yield site
    await site.service.stop()


async def stepped_up(site: Site, username: str = "alice") -> Browser:
    """A browser whose session grew out of a weaker one, which other hosts have still."""
    browser = site.browser()
    site.idp.bend.claims = {"sid": f"weak-session-of-{username}"}
    await browser.sign_in(username)
    site.idp.bend.claims = {"sid": f"strong-session-of-{username}", "acr": "mfa"}
    await browser.get(site.idp.pick(await requested_step_up(site, browser), username))
    site.idp.bend.claims = {}
    return browser


async def requested_step_up(site: Site, browser: Browser, acr: str = "mfa") -> str:
    params = {"gate_redirect_uri": f"{APP}/wages", "gate_attempt": ATTEMPT, "gate_acr_values": acr}
    return (await browser.get(site.service.signer.sign(f"{ORIGIN}/.gate/sign_in", params, site.clock()))).location


async def strong_id(site: Site) -> str:
    return (await strong(site)).id


async def strong(site: Site) -> Record:
    (record,) = [record for record in await site.sessions() if record.data["linked_session_ids"] and record.data["subject"] == "alice"]
    return record


def csrf_of(text: str) -> str:
    return text.partition('name="_gate_csrf" value="')[2].partition('"')[0]


async def by_their_page(site: Site, browser: Browser, **more: str) -> None:
    token = csrf_of((await browser.get("/.gate/")).text)
    assert (await browser.post("/.gate/signout/", {"_gate_csrf": token, **more})).status in (200, 302)


async def on_all_devices(site: Site, browser: Browser) -> None:
    other = site.browser()
    await other.sign_in("alice")
    token = csrf_of((await other.get("/.gate/")).text)
    assert (await other.post("/.gate/signout/", {"_gate_csrf": token, "gate_everywhere": "yes"})).status == 302


async def alongside_another_session(site: Site, browser: Browser) -> None:
    """Sign out another user, with this session's cookie also in the request, as if planted."""
    other = site.browser()
    await other.sign_in("bob")
    token = csrf_of((await other.get("/.gate/")).text)
    cookies = f"_gate={browser.cookies['_gate']}; {of_jar(other.cookies)}; __Host-_gate_csrf={other.cookies['__Host-_gate_csrf']}"
    form = f"_gate_csrf={token}".encode()
    headers = {"accept": "text/html", "content-type": "application/x-www-form-urlencoded", "cookie": cookies}
    sent = [(name.encode(), value.encode()) for name, value in headers.items()]
    assert (await site.answer("POST", "/.gate/signout/", sent, form)).status == 302


async def by_the_provider(site: Site, **claims: str) -> None:
    response = await site.browser().post("/.gate/backchannel_logout", {"logout_token": site.idp.logout_token(**claims)})
    assert response.status == 200, response.text


async def by_a_frame_of_the_provider(site: Site, browser: Browser) -> None:
    assert (await site.browser().get(f"/.gate/frontchannel_logout?iss={site.idp.issuer}&sid=strong-session-of-alice")).status == 200


async def by_the_directory(site: Site, browser: Browser, active: bool = False) -> None:
    document = {"schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"], "userName": "alice", "externalId": "alice", "active": active}
    headers = [(b"authorization", f"Bearer {TOKEN}".encode()), (b"content-type", b"application/scim+json")]
    response = await site.answer("POST", "/.gate/scim/v2/Users", headers, json.dumps(document).encode())
    assert response.status == 201, response.text


async def by_an_administrator(site: Site, browser: Browser) -> None:
    await sync_to_async(administrator(site).end_sessions)([await strong_id(site)])


async def by_administrator(site: Site, browser: Browser) -> None:
    await sync_to_async(administrator(site).end_all_sessions)(["oidc/alice"])


def administrator(site: Site) -> EndSessionsAction:
    request: Any = HttpRequest()
    request.user = SimpleNamespace(pk=None, is_authenticated=False, get_username=lambda: "admin", email="", is_active=True, is_staff=True)
    request.scope = {"gate": SimpleNamespace(broker=site.broker, client_address="192.0.2.9")}
    request.session = {}
    return EndSessionsAction(request)


async def by_a_refused_refresh(site: Site, browser: Browser) -> None:
    site.idp.bend.answers["/token"] = Answer.json({"error": "invalid_grant"}, 400)
    site.clock.ahead = 3550
    with pytest.raises(SessionEnded):
        await site.service.refresh.renew(await strong_id(site), RefreshStep.TOKENS)


async def by_missing_confirmation(site: Site, browser: Browser) -> None:
    site.clock.ahead = 3700
    id = await strong_id(site)
    record = await site.broker.get(SESSION, id)
    assert record is not None
    await site.service.refresh.end_if_expired(id, record.data["tokens_received_at"], ProviderError("away"))


async def by_sign_in_of_another_user(site: Site, browser: Browser) -> None:
    site.idp.bend.claims = {"acr": "hw"}
    await browser.get(site.idp.pick(await requested_step_up(site, browser, "hw"), "bob"))


async def by_one_step_up_too_many(site: Site, browser: Browser) -> None:
    record = await strong(site)
    data = {**record.data, "linked_session_ids": [*record.data["linked_session_ids"], *(f"gone-{number}" for number in range(8))]}
    await site.broker.put(SESSION, record.id, data)
    site.idp.bend.claims = {"acr": "hw"}
    await browser.get(site.idp.pick(await requested_step_up(site, browser, "hw"), "alice"))
    (fresh,) = [record.id for record in await site.sessions() if record.data["claims"].get("acr") == "hw"]
    await site.broker.delete(SESSION, fresh)


Way = Callable[[Site, Browser], Awaitable[object]]
WAYS: dict[str, Way] = {
    "the sign-out page": by_their_page,
    "the button for all devices": on_all_devices,
    "a sign-out whose request carried it": alongside_another_session,
    "the provider, by its session": lambda site, browser: by_the_provider(site, sid="strong-session-of-alice"),
    "the provider, by the person": lambda site, browser: by_the_provider(site, sub="alice"),
    "a frame of the provider": by_a_frame_of_the_provider,
    "the pushed directory": by_the_directory,
    "an administrator": by_an_administrator,
    "an administrator, all of a person": by_administrator,
    "a refused refresh": by_a_refused_refresh,
    "an access token without renewal": by_missing_confirmation,
    "another person in the same browser": by_sign_in_of_another_user,
    "one step-up too many": by_one_step_up_too_many,
}


@pytest.mark.parametrize("end", WAYS.values(), ids=WAYS.keys())
async def test_weaker_sessions_of_the_same_browser_and_no_others_end(site: Site, end: Way) -> None:
    await stepped_up(site, "bob")
    alice = await stepped_up(site)
    before = {record.id for record in await site.sessions() if record.data["subject"] == "bob"}
    await end(site, alice)
    after = await site.sessions()
    assert [record.id for record in after if record.data["subject"] == "alice"] == []
    assert before <= {record.id for record in after}
