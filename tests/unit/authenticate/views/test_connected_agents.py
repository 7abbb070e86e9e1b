"""Connected agents on the sessions page: client, resource, scopes, and their end."""

import re

from tests.support.agents import RESOURCE, TOKEN, authorize_url, authorized, post, refresh_form
from tests.support.authenticate_site import ORIGIN, Site

PAGE = f"{ORIGIN}/.gate/sessions"


async def test_agents_are_listed_apart_and_revoked(agent_site: Site) -> None:
    browser = agent_site.browser()
    tokens = await authorized(agent_site, browser, scope="tickets:read")
    page = (await browser.get(PAGE)).text
    assert page.count('<ul class="sessions">') == 2
    agents = page.partition('id="agents"')[2].partition("</section>")[0]
    for displayed in ("Ticket agent", RESOURCE, "tickets:read"):
        assert displayed in agents
    (csrf,) = re.findall(r'name="_gate_csrf" value="([^"]+)"', page)
    (session_id,) = re.findall(r'name="end" value="([^"]+)"', agents)
    assert (await browser.post(PAGE, {"_gate_csrf": csrf, "end": session_id})).status == 303
    assert 'id="agents"' not in (await browser.get(PAGE)).text
    assert (await post(agent_site, TOKEN, refresh_form(tokens["refresh_token"])))[1]["error"] == "invalid_grant"
    # The consent is forgotten, too: the client cannot return without the page.
    assert (await browser.get(authorize_url(scope="tickets:read"))).status == 200


async def test_another_user_cannot_revoke(agent_site: Site) -> None:
    await authorized(agent_site)
    (agent,) = [record for record in await agent_site.sessions() if "agent" in record.data]
    other = agent_site.browser()
    await other.sign_in("bob")
    (csrf,) = re.findall(r'name="_gate_csrf" value="([^"]+)"', (await other.get(PAGE)).text)
    assert (await other.post(PAGE, {"_gate_csrf": csrf, "end": agent.id})).status == 404
    assert agent in await agent_site.sessions()
