"""Impersonation on a cluster, and that it never lacks an identity."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from authorize.policy.compiled_route import CompiledRoute, compile_route
from authorize.policy.route_table import RouteTable
from authorize.upstream.identity_headers import IdentityHeaders
from authorize.upstream.upstream_credentials import UpstreamCredentials, audience_for, impersonated_user
from foundation.crypto.signing_key import SigningKey
from foundation.errors import NoIdentity
from foundation.values import parse_url
from tests.support.cloud import Cloud
from tests.support.options import make_options
from tests.unit.authorize.builders import make_route, user

TOKEN = "the-cluster-token"
CLUSTER = compile_route(make_route("k8s.example.com", cluster_service_account_token=TOKEN), "policy[0]")
SERVERLESS = compile_route(make_route("run.example.com", enable_cloud_serverless_authentication=True), "policy[1]")
PLAIN = compile_route(make_route(), "policy[2]")


@pytest.fixture
async def cloud() -> AsyncIterator[Cloud]:
    async with Cloud() as cloud:
        yield cloud


@pytest.fixture
def credentials(tmp_path: Path, cloud: Cloud) -> UpstreamCredentials:
    return made(tmp_path, CLUSTER, SERVERLESS, PLAIN, cloud_serverless_metadata_url=cloud.url)


def made(tmp_path: Path, *routes: CompiledRoute, **settings: object) -> UpstreamCredentials:
    options = make_options(tmp_path, **settings)
    released = IdentityHeaders(options, SigningKey.from_options(options)).released_groups
    return UpstreamCredentials(options, RouteTable.build([compiled.route for compiled in routes], client_ca=None), released)


async def test_cluster_gets_impersonation_headers(credentials: UpstreamCredentials) -> None:
    assert await credentials.headers_for(CLUSTER, user(groups=("g1", "Sales"))) == (
        (b"authorization", b"Bearer the-cluster-token"),
        (b"impersonate-user", b"ann@corp.com"),
        (b"impersonate-group", b"g1"),
        (b"impersonate-group", b"Sales"),
    )


async def test_basic_auth_is_sent_for_every_user(tmp_path: Path) -> None:
    old = compile_route(make_route("old.example.com", basic_auth={"user": "gate", "password": "pass"}), "policy[0]")
    found = made(tmp_path, old)
    for identity in (user(), None):
        assert await found.headers_for(old, identity) == ((b"authorization", b"Basic Z2F0ZTpwYXNz"),)


async def test_cluster_token_requires_identity(credentials: UpstreamCredentials) -> None:
    with pytest.raises(NoIdentity):
        await credentials.headers_for(CLUSTER, None)


@pytest.mark.parametrize(
    ("identity", "name"),
    [
        (user(), b"ann@corp.com"),
        (user(directory_email="ann@directory.org"), b"ann@directory.org"),
        (user("ceo@corp.com", verified_email=""), b"oidc/1"),
        (user(""), b"oidc/1"),
        (user("oidc/2@corp.com"), b"oidc/1"),
        (user("system:admin@corp.com"), b"oidc/1"),
        (user("änn@corp.com"), b"oidc/1"),
    ],
)
def test_impersonated_name_is_unique(identity: object, name: bytes) -> None:
    assert impersonated_user(identity) == name  # type: ignore[arg-type]


@pytest.mark.parametrize("subject", ["é", "a\r\nImpersonate-Group: system:masters", "a "])
def test_a_name_is_passed_as_it_is_or_not_at_all(subject: str) -> None:
    with pytest.raises(NoIdentity):
        impersonated_user(user("", subject=subject))


async def test_reserved_groups_are_not_impersonated(credentials: UpstreamCredentials) -> None:
    groups = ("system:masters", "System:masters", " system:masters", "é", "a\nb", "ok")
    found = await credentials.headers_for(CLUSTER, user(groups=groups))
    assert [value for name, value in found if name == b"impersonate-group"] == [b"ok"]


async def test_headers_are_cached_per_identity(credentials: UpstreamCredentials) -> None:
    ann = user(groups=("admins",))
    first = await credentials.headers_for(CLUSTER, ann)
    assert await credentials.headers_for(CLUSTER, ann) is first
    assert len(await credentials.headers_for(CLUSTER, user())) == 2


async def test_a_filter_holds_for_impersonation_too(tmp_path: Path) -> None:
    found = await made(tmp_path, CLUSTER, jwt_groups_filter=["b"]).headers_for(CLUSTER, user(groups=("a", "b")))
    assert [value for name, value in found if name == b"impersonate-group"] == [b"b"]


async def test_more_than_many_servers_accept_is_warned_of_once(credentials: UpstreamCredentials) -> None:
    ann = user(groups=tuple(f"group-{number:03}-{'x' * 50}" for number in range(120)))
    with capture_logs() as logged:
        for _ in range(3):
            await credentials.headers_for(CLUSTER, ann)
    (entry,) = logged
    assert entry["log_level"] == "warning"
    assert entry["bytes"] > 8192
    assert TOKEN not in str(entry)


async def test_a_serverless_upstream_gets_a_token_for_itself(credentials: UpstreamCredentials, cloud: Cloud) -> None:
    found = await credentials.headers_for(SERVERLESS, None)
    assert found == ((b"authorization", f"Bearer {cloud.tokens[0]}".encode()),)
    assert cloud.requested_audiences == ["https://upstream.example.com"]


async def test_another_upstream_sees_nothing(credentials: UpstreamCredentials, cloud: Cloud) -> None:
    assert await credentials.headers_for(PLAIN, user()) == ()
    assert cloud.requested_audiences == []
    assert [credentials.needs_identity(route) for route in (CLUSTER, SERVERLESS, PLAIN)] == [True, False, False]


@pytest.mark.parametrize(
    ("to", "audience"),
    [
        ("https://app-1.run.example/base/", "https://app-1.run.example"),
        ("http://app-1.run.example", "https://app-1.run.example"),
        ("https://app-1.run.example:8443", "https://app-1.run.example:8443"),
    ],
)
def test_an_audience_is_an_https_url_without_a_path(to: str, audience: str) -> None:
    assert audience_for(parse_url(to)) == audience


def test_repr_has_no_token(credentials: UpstreamCredentials, tmp_path: Path) -> None:
    assert repr(credentials) == "<UpstreamCredentials of 1 clusters, 1 serverless, 0 basic>"
    assert TOKEN not in repr(CLUSTER.route)
    old = compile_route(make_route(basic_auth={"user": "gate", "password": TOKEN}), "policy[0]")
    assert TOKEN not in repr(old.route) + repr(made(tmp_path, old))
