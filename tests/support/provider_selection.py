"""A complete gate with two development providers, between which users select."""

from typing import Any

import httpx

from tests.support.development_provider import DevelopmentProvider, pick_user
from tests.support.gate import AUTHENTICATE_HOST, HTML, RunningGate, follow
from tests.support.split import Split

OPEN, CORP_ONLY = "open.localhost", "corp.localhost"
IDP_KEYS = ("idp_provider", "idp_provider_url", "idp_client_id", "idp_client_secret", "idp_scopes")
PLANES: dict[str, dict[str, Any]] = {
    "embedded": {"data_plane": "embedded"},
    "envoy": {"data_plane": "envoy"},
    "workers": {"workers": 2},
}


def entry(id: str, provider: DevelopmentProvider, *domains: str, **more: Any) -> dict[str, Any]:
    client = {"client_id": "gate-tests", "client_secret": "not a secret", "scopes": ["openid", "profile", "email"]}
    return {"id": id, "provider": "oidc", "url": provider.url, **client, "domains": list(domains), **more}


async def signed_in(
    gate: RunningGate | Split, client: httpx.AsyncClient, id: str, provider: DevelopmentProvider, username: str = "alice"
) -> httpx.Response:
    """Sign in as this user of this provider on the route for all users."""
    is_split = isinstance(gate, Split)
    page = await follow(client, await client.get(gate.url() if is_split else gate.url(OPEN), headers=HTML))
    assert "Choose how to sign in" in page.text
    (href,) = [part.partition('"')[0].replace("&amp;", "&") for part in page.text.split('href="')[1:] if f"gate_idp={id}" in part[:900]][:1]
    chosen = f"https://{AUTHENTICATE_HOST}:{gate.ports['authenticate']}{href}" if is_split else gate.url(AUTHENTICATE_HOST, href)
    offered = await follow(client, await client.get(chosen, headers=HTML))
    assert str(offered.url).startswith(provider.url)
    return await follow(client, await pick_user(client, offered, username))


def configure(split: Split, entries: list[dict[str, Any]]) -> None:
    public = [{name: value for name, value in each.items() if not name.startswith("client_")} for each in entries]
    for service in ("authenticate", "authorize", "proxy"):
        retained = {name: value for name, value in split.settings[service].items() if not name.startswith(("idp_", "groups_claim"))}
        split.settings[service] = {**retained, "identity_providers": entries if service == "authenticate" else public}
