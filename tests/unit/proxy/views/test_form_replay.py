"""Form replay page with the button: for the browser that sent the form, when a user is signed in there."""

import re

import pytest

from foundation.web.pages import TIMES_SCRIPT
from tests.support.asgi import NAVIGATION, Answer, chunked_receive, incoming_from
from tests.support.route_site import RouteBrowser, RouteSite
from tests.support.signed_in import sign_in

HOST = "app.example.com"
URL = f"https://{HOST}/orders?year=2026&q=%3Cb%3E"


async def sent(site: RouteSite, browser: RouteBrowser) -> str:
    """The path of the page, after this browser sent a form without a session."""
    headers = {**NAVIGATION, "origin": f"https://{HOST}", "content-type": "application/x-www-form-urlencoded"}
    answer = Answer()
    await site.proxy.data_plane(incoming_from(URL, method="POST", headers=headers), chunked_receive(b"a=1"), answer.send)
    browser.keep(HOST, answer.values("set-cookie"))
    (name,) = (name for name in browser.cookies[HOST] if "_form_" in name)
    assert name.startswith("__Host-_gate_form_")
    return "/.gate/form/" + name.partition("_form_")[2]


async def signed_in(site: RouteSite, browser: RouteBrowser) -> None:
    ann = await sign_in(site.broker, site.options)
    browser.keep(HOST, ann.cookie(HOST).split("; "))


async def test_button_submits_to_the_original_url_and_names_the_user(site: RouteSite) -> None:
    browser = site.browser()
    path = await sent(site, browser)
    await signed_in(site, browser)
    answer = await browser.get(f"https://{HOST}{path}")
    text = answer.body.decode()
    assert answer.status == 200
    assert f'<form method="post" action="https://{HOST}/orders?year=2026&amp;q=%3Cb%3E">' in text
    assert f'name="_gate_form" value="{path.rpartition("/")[2]}"' in text
    assert "ann@example.com" in text
    policy = answer.header("content-security-policy")
    assert "frame-ancestors 'none'" in policy
    assert "'self'" not in policy
    assert re.findall("(?s)<script>(.*?)</script>", text) == [TIMES_SCRIPT]
    assert re.search(r"at <time [^>]*>\d\d:\d\d UTC</time>", text)
    assert "form-action" not in policy


async def test_unauthenticated_user_signs_in_first_and_returns(site: RouteSite) -> None:
    browser = site.browser()
    path = await sent(site, browser)
    answer = await browser.get(f"https://{HOST}{path}")
    assert answer.status == 302
    assert f"gate_redirect_uri=https%3A%2F%2F{HOST}%2F.gate%2Fform%2F" in answer.header("location")


async def test_another_browser_sees_nothing(site: RouteSite) -> None:
    browser, other = site.browser(), site.browser()
    path = await sent(site, browser)
    other.cookies[HOST] = {}
    await signed_in(site, other)
    answer = await other.get(f"https://{HOST}{path}")
    assert answer.status == 410
    assert b"/orders" not in answer.body


async def test_after_ten_minutes_it_is_gone(site: RouteSite) -> None:
    browser = site.browser()
    path = await sent(site, browser)
    await signed_in(site, browser)
    site.ahead = 601
    answer = await browser.get(f"https://{HOST}{path}")
    assert answer.status == 410
    assert b"Check whether it has arrived" in answer.body


@pytest.mark.parametrize("id", ["x", "a" * 22, "a.b", "a" * 5000])
async def test_an_id_that_is_none_shows_nothing(site: RouteSite, id: str) -> None:
    browser = site.browser()
    await sent(site, browser)
    await signed_in(site, browser)
    assert (await browser.get(f"https://{HOST}/.gate/form/{id}")).status in (404, 410)
