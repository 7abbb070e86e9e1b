"""Microsoft Entra ID specifics: delta queries, partial groups, and national clouds."""

import json
from pathlib import Path

import pytest

from authenticate.directory.vendors.azure_directory import FULL_SYNC_INTERVAL
from authenticate.directory.vendors.vendor_registry import build_vendor
from tests.support.fake_api import as_json
from tests.support.options import make_options

MICROSOFT, GUID = "https://login.microsoftonline.com", "abcdef11-2222-3333-4444-555555555555"


def requested_paths(stage) -> list[str]:
    return [request.query.get("$deltatoken", "") for request in stage.directory.requests if request.path.endswith("/delta")]


async def test_second_sync_requests_only_changes(staged) -> None:
    stage = await staged("azure")
    await stage.read()
    before = len(stage.directory.requests)
    stage.directory.company.members["empty"] = ["carol"]
    stage.directory.company.members["engineering"] = ["bob"]
    run = await stage.read()
    assert len(stage.directory.requests) - before == 2
    assert run.changed == 2
    assert await stage.users() == stage.directory.expected()[0]


async def test_expired_delta_causes_full_sync(staged) -> None:
    stage = await staged("azure")
    await stage.read()
    stage.directory.forget_deltas()
    del stage.directory.company.users["bob"]
    assert (await stage.read()).error == ""
    assert await stage.users() == stage.directory.expected()[0]


async def test_full_sync_runs_daily(staged) -> None:
    stage = await staged("azure")
    await stage.read()
    await stage.read()
    assert requested_paths(stage)[-2:] != ["", ""]
    stage.now += FULL_SYNC_INTERVAL
    await stage.read()
    assert any(not token for token in requested_paths(stage)[-4:])


async def test_a_failed_reading_is_not_remembered(staged) -> None:
    """Otherwise the data of its first pages would be missing permanently."""
    stage = await staged("azure")
    await stage.read()
    stage.directory.company.members["engineering"] = ["carol"]
    del stage.directory.company.users["bob"]
    stage.directory.fault = lambda request: as_json({}, 400) if request.path.endswith("/users/delta") else None
    assert (await stage.read()).error
    stage.directory.fault = lambda request: None
    assert (await stage.read()).error == ""
    assert await stage.users() == stage.directory.expected()[0]


@pytest.mark.parametrize("end", [{}, {"@odata.deltaLink": ""}, {"@odata.deltaLink": ["x"]}, {"@odata.nextLink": ["x"]}])
async def test_listing_without_continuation_may_be_incomplete(staged, end) -> None:
    stage = await staged("azure")
    await stage.read()
    before = await stage.users()
    stage.directory.fault = lambda request: as_json({"value": [], **end}, 200) if request.path.endswith("/users/delta") else None
    assert "deltaLink" in (await stage.read()).error
    assert await stage.users() == before


async def test_groups_that_hold_each_other_end(staged) -> None:
    stage = await staged("azure")
    stage.directory.company.inside = {"backend": "engineering", "engineering": "backend"}
    assert (await stage.read()).error == ""
    both = sorted(stage.directory.group_id(group) for group in ("backend", "engineering"))
    assert list((await stage.users())[f"azure/{stage.directory.user_id('ann')}"].group_ids) == both


@pytest.mark.parametrize(
    ("site", "graph"),
    [
        ("https://login.microsoftonline.com", "graph.microsoft.com"),
        ("https://login.microsoftonline.us", "graph.microsoft.us"),
        ("https://login.partner.microsoftonline.cn", "microsoftgraph.chinacloudapi.cn"),
    ],
)
async def test_each_cloud_has_its_own_graph(staged, site: str, graph: str) -> None:
    stage = await staged("azure", idp_directory_url=None, idp_provider_url=f"{site}/contoso.example/v2.0")
    assert str(stage.source) == f"azure at {graph}"


async def test_without_an_account_the_sign_in_client_is_used(staged) -> None:
    route = {"from": "https://a.example.com", "to": "http://127.0.0.1:1", "allowed_groups": ["x"]}
    own = {"idp_service_account": None, "idp_client_id": "client", "idp_client_secret": "secret", "policy": [route]}
    stage = await staged("azure", **own)
    assert (await stage.read()).error == ""


@pytest.mark.parametrize(
    ("url", "directory_id", "issuer"),
    [
        ("", GUID, f"{MICROSOFT}/{GUID}/v2.0"),
        ("", GUID.upper(), f"{MICROSOFT}/{GUID}/v2.0"),
        ("", "corp.example", f"{MICROSOFT}/{{tenantid}}/v2.0"),
        (f"{MICROSOFT}/{GUID}/v2.0", "corp.example", f"{MICROSOFT}/{GUID}/v2.0"),
    ],
)
def test_listed_users_belong_to_one_tenant(tmp_path: Path, url: str, directory_id: str, issuer: str) -> None:
    account = {"client_id": "c", "client_secret": "s", "directory_id": directory_id}
    options = make_options(tmp_path, idp_provider="azure", idp_provider_url=url or None, idp_service_account=json.dumps(account))
    vendor = build_vendor(options, options.first_provider, lambda: 0.0)
    assert vendor is not None
    assert vendor.issuer == issuer
    assert vendor.build_member("1", "", "", {}).user.issuer == issuer
