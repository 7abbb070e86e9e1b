"""A provider's documents lead gate to public addresses, or to where the provider itself is."""

import asyncio
import ipaddress
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from authenticate.provider import address_scope
from authenticate.provider.address_scope import AddressRefused, AddressScope, address_kinds
from authenticate.provider.client_registry import ProviderClients
from authenticate.provider.discovery import DiscoveryDocument
from authenticate.provider.par import push_params
from authenticate.provider.provider_client import ProviderClient
from authenticate.provider.provider_http import ProviderHttp
from databroker.records import SessionRecord
from foundation.errors import ProviderError
from tests.support.fake_idp import FakeIdP
from tests.support.options import make_options
from tests.support.providers import a_provider

FAR = "https://idp.partner.example"
SESSION = SessionRecord("s", "partner/a", "a", "partner", 0, 1, access_token="at", refresh_token="rt")


@pytest.fixture(autouse=True)
def this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine has loopback addresses alone: tests open no socket towards others."""
    monkeypatch.setattr(address_scope, "_is_local_address", lambda address: address.is_loopback)


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("127.0.0.1", "loopback"),
        ("127.9.9.9", "loopback"),
        ("::1", "loopback"),
        ("::ffff:127.0.0.1", "loopback"),
        ("::127.0.0.1", "loopback"),
        ("64:ff9b::7f00:1", "loopback"),
        ("2002:7f00:1::1", "loopback"),
        ("169.254.169.254", "link-local"),
        ("::ffff:169.254.169.254", "link-local"),
        ("fe80::1", "link-local"),
        ("10.0.0.1", "private"),
        ("172.31.255.255", "private"),
        ("192.168.1.1", "private"),
        ("100.64.0.1", "private"),
        ("::ffff:10.0.0.1", "private"),
        ("64:ff9b::a00:1", "private"),
        ("2002:a00:1::", "private"),
        ("fd00::1", "private"),
        ("0.0.0.0", "special-purpose"),
        ("::", "special-purpose"),
        ("::ffff:0.0.0.0", "special-purpose"),
        ("224.0.0.1", "special-purpose"),
        ("ff0e::1", "special-purpose"),
        ("255.255.255.255", "special-purpose"),
        ("240.0.0.1", "special-purpose"),
        ("fec0::1", "private"),
    ],
)
def test_an_address_that_is_not_public_is_of_a_kind(address: str, kind: str) -> None:
    assert any(kind in found for found in address_kinds(ipaddress.ip_address(address)))


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1", "64:ff9b::808:808", "::ffff:8.8.8.8", "2002:808:808::1"]
)
def test_a_public_address_is_of_no_kind(address: str) -> None:
    assert address_kinds(ipaddress.ip_address(address)) == frozenset()


def test_loopback_is_an_address_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert address_kinds(ipaddress.ip_address("127.0.0.1")) == {address_scope.LOOPBACK, address_scope.THIS_MACHINE}


def test_a_public_address_of_this_machine_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(address_scope, "_is_local_address", lambda address: True)
    scope = AddressScope(FAR)
    with pytest.raises(AddressRefused, match="this machine"):
        scope.check("x.example", 443, [ipaddress.ip_address("8.8.8.8")])


@dataclass
class _HomeAnswer:
    """A response as the scope reads it."""

    url: str
    peer: str
    extensions: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.request = httpx.Request("GET", self.url)
        self.extensions = {"network_stream": self}

    def get_extra_info(self, name: str) -> tuple[str, int]:
        return (self.peer, 443)


@pytest.mark.parametrize(
    ("home_is_at", "endpoint_is_at", "allowed"),
    [
        ("8.8.8.8", "9.9.9.9", True),
        ("8.8.8.8", "10.0.0.1", False),
        ("10.0.0.9", "10.0.0.1", True),
        ("10.0.0.9", "192.168.0.1", True),
        ("10.0.0.9", "fd00::1", True),
        ("10.0.0.9", "9.9.9.9", True),
        ("10.0.0.9", "127.0.0.1", False),
        ("10.0.0.9", "169.254.169.254", False),
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "::1", True),
        ("127.0.0.1", "10.0.0.1", False),
    ],
)
def test_an_endpoint_is_as_far_inside_as_the_provider_itself(home_is_at: str, endpoint_is_at: str, allowed: bool) -> None:
    scope, endpoint = AddressScope(FAR), [ipaddress.ip_address(endpoint_is_at)]
    scope.learn_from(_HomeAnswer(f"{FAR}/.well-known/openid-configuration", home_is_at))  # type: ignore[arg-type]
    if allowed:
        assert scope.check("keys.example", 443, endpoint) == endpoint
    else:
        with pytest.raises(AddressRefused):
            scope.check("keys.example", 443, endpoint)


@pytest.mark.parametrize("url", ["https://10.0.0.9/x", "https://idp.partner.example:8443/x", "https://other.example/"])
def test_only_configured_origin_determines_provider_endpoints(url: str) -> None:
    scope = AddressScope(FAR)
    scope.learn_from(_HomeAnswer(url, "10.0.0.9"))  # type: ignore[arg-type]
    with pytest.raises(AddressRefused):
        scope.check("x.example", 443, [ipaddress.ip_address("10.0.0.1")])


def test_of_several_addresses_only_those_in_scope_are_dialled() -> None:
    public = ipaddress.ip_address("9.9.9.9")
    assert AddressScope(FAR).check("x.example", 443, [ipaddress.ip_address("10.0.0.1"), public]) == [public]


async def test_the_address_that_is_dialled_is_the_one_that_was_checked(
    tmp_path: Path, idp: FakeIdP, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that is public when it is looked at and loopback when it is dialled (DNS rebinding) does not get a second look-up."""
    looked_up: list[str] = []

    async def getaddrinfo(host: str, port: int, **_: Any) -> list[Any]:
        looked_up.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    http = ProviderHttp(make_options(tmp_path), AddressScope(FAR))
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", getaddrinfo)
    with capture_logs() as logs, pytest.raises(ProviderError, match=r"rebound\.example"):
        await http.get(idp.issuer.replace("127.0.0.1", "rebound.example") + "/jwks")
    assert looked_up == ["rebound.example"]
    assert idp.requests == []
    assert [(line["event"], line["named_by"], line["address"]) for line in logs] == [
        ("provider endpoint refused: internal address", "idp.partner.example", "127.0.0.1")
    ]
    await http.close()


@pytest.mark.parametrize("spelling", ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "localhost", "[::ffff:127.0.0.1]"])
async def test_no_spelling_of_loopback_gets_there(tmp_path: Path, idp: FakeIdP, spelling: str) -> None:
    http = ProviderHttp(make_options(tmp_path), AddressScope(FAR))
    with pytest.raises(ProviderError, match=r"idp\.partner\.example"):
        await http.get(idp.issuer.replace("127.0.0.1", spelling) + "/jwks")
    assert idp.requests == []
    await http.close()


Use = Callable[[ProviderClient, DiscoveryDocument], Awaitable[object]]
USES: dict[str, Use] = {
    "token": lambda client, discovery: client.request_tokens({"code": "x"}, discovery, needs_id_token=True),
    "pushed request": lambda client, discovery: push_params(client, discovery, {"state": "x"}),
    "userinfo": lambda client, discovery: client.fetch_claims({}, "at", discovery),
    "keys": lambda client, discovery: client.key_set.keys(discovery.jwks_uri),
    "revocation": lambda client, discovery: client.provider.revoke(client, discovery, SESSION),
    "own work": lambda client, discovery: client.for_background_work().post_as_client(discovery.token_endpoint, {}, discovery),
}


@pytest.fixture
async def partner(tmp_path: Path) -> AsyncIterator[ProviderClient]:
    clients = ProviderClients(make_options(tmp_path), time.time)
    clients.configured = {"partner": a_provider("partner", "oidc", FAR)}
    client = clients.get("partner")
    assert client is not None
    yield client
    await clients.close()


@pytest.mark.parametrize("use", USES)
async def test_a_far_provider_names_an_application_on_loopback(partner: ProviderClient, idp: FakeIdP, use: str) -> None:
    """The canary counts requests: a provider that turned hostile makes gate send none to this machine."""
    url = f"{idp.issuer}/wages/pay?to=mallory"
    discovery = DiscoveryDocument(FAR, url, url, url, frozenset({"RS256"}))
    discovery = replace(discovery, userinfo_endpoint=url, revocation_endpoint=url, par_endpoint=url)
    with pytest.raises(ProviderError, match=r"a loopback address \(127\.0\.0\.1\)"):
        await USES[use](partner, discovery)
    assert idp.requests == []


async def test_an_endpoint_can_be_checked_without_a_request(partner: ProviderClient, idp: FakeIdP) -> None:
    with pytest.raises(ProviderError, match=r"public host idp\.partner\.example"):
        await partner.http.check_address(f"{idp.issuer}/x")
    assert idp.requests == []


async def test_a_provider_on_loopback_keeps_its_endpoints_there(tmp_path: Path, idp: FakeIdP) -> None:
    other = await FakeIdP.started()
    http = ProviderHttp(make_options(tmp_path), AddressScope(idp.issuer))
    with pytest.raises(ProviderError):
        await http.get(f"{other.issuer}/jwks")  # of the provider itself nothing is known yet
    await http.get(f"{idp.issuer}/.well-known/openid-configuration")
    assert (await http.get(f"{other.issuer}/jwks")).status == 200
    await http.close()
    await other.stop()
