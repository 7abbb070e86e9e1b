"""The same small company through every vendor's directory gives the same records; whatever fails on the way changes nothing."""

import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from authenticate.directory import vendor_source
from authenticate.directory.vendors.vendor_registry import DIRECTORIES
from databroker.records import DirectoryUser
from tests.support.directory_stage import Stage
from tests.support.fake_api import Answer, FakeApi, Request, as_json
from tests.support.fake_directories import KINDS, FakeDirectory

SECRETS = ("token-1", "okta-key", "ghp_token", "glpat-token", "robot:", "PRIVATE KEY")


@pytest.fixture(params=[kind.provider for kind in KINDS])
async def directory(request: pytest.FixtureRequest) -> AsyncIterator[FakeDirectory]:
    async with FakeDirectory.for_kind(request.param) as running:
        yield running


@pytest.fixture
async def stage(directory: FakeDirectory, tmp_path: Path) -> AsyncIterator[Stage]:
    stage = Stage(directory, tmp_path)
    yield stage
    await stage.source.close()


def test_every_directory_is_here() -> None:
    assert {kind.provider for kind in KINDS} == set(DIRECTORIES)


async def test_directory_matches_vendor(stage: Stage) -> None:
    run = await stage.read()
    users, groups = stage.directory.expected()
    assert run.error == ""
    assert await stage.users() == users
    assert await stage.groups() == groups
    assert (run.users, run.groups, run.added, run.changed, run.removed) == (len(users), len(groups), len(users) + len(groups), 0, 0)
    assert run.requests == len(stage.directory.requests)
    assert stage.slept == []


async def test_nested_groups_include_inner_members(stage: Stage) -> None:
    await stage.read()
    directory = stage.directory
    groups = (await stage.users())[f"{directory.provider}/{directory.user_id('zoe')}"].group_ids
    inner, outer = directory.group_id("backend"), directory.group_id("engineering")
    assert set(groups) == ({inner, outer} if directory.knows_nesting else {inner})


async def test_an_unchanged_second_reading_writes_nothing(stage: Stage) -> None:
    await stage.read()
    before = await stage.versions()
    run = await stage.read()
    assert (run.error, run.added, run.changed, run.removed) == ("", 0, 0, 0)
    assert await stage.versions() == before


def change(directory: FakeDirectory) -> None:
    company = directory.company
    company.users["dan"] = ("Dan Dorn", "dan@corp.example")
    company.users["ann"] = ("Ann Newname", "ann@corp.example") if directory.provider != "github" else company.users["ann"]
    del company.users["bob"]
    company.groups.remove("empty")
    company.members = {"engineering": ["ann"], "backend": ["zoe", "dan"]}
    if directory.provider == "okta":
        directory.changed = dict.fromkeys(company.groups, "2026-02-02T00:00:00.000Z")


def in_no_group(stage: Stage, known: Mapping[str, Any]) -> dict[str, Any]:
    """How those are known who are listed no longer, where only who is in a group is listed."""
    return {} if stage.directory.lists_all_users else {id: DirectoryUser(id, issuer=stage.directory.issuer) for id in known}


async def test_changes_are_followed(stage: Stage) -> None:
    await stage.read()
    known = in_no_group(stage, await stage.users())
    change(stage.directory)
    run = await stage.read()
    users, groups = stage.directory.expected()
    assert run.error == ""
    assert await stage.users() == known | users
    assert await stage.groups() == groups


async def test_user_look_up_equals_full_synchronization(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vendor_source, "LOOK_UP_TIMEOUT", 60.0)  # no user waits here, and the machine may be busy
    for user in ("ann", "zoe"):
        wanted = stage.directory.expected_user(user)
        account = await stage.source.look_up(wanted.id, f"token of {user}")
        assert account is not None
        assert account.user == wanted
        assert {group.id: group.name for group in account.groups} == {id: stage.directory.expected()[1][id].name for id in wanted.group_ids}


async def test_user_missing_in_directory_has_no_groups(stage: Stage) -> None:
    account = await stage.source.look_up(f"{stage.directory.provider}/4040404", "token of nobody")
    assert account is None or account.groups == ()
    assert await stage.source.look_up("other/1", "x") is None


async def test_a_token_that_is_no_longer_taken_is_replaced_once(stage: Stage) -> None:
    await stage.read()
    stage.directory.token = "token-2"
    assert (await stage.read()).error == ""


# Each page fails in some ways, and each way is tried on some pages; `make attack` tries all on all.
ALL = "GATE_DIRECTORY_FAULTS" in os.environ
SAMPLE = 4

# How pages fail.  Each is what happens whenever this page is asked for.
FAULTS: dict[str, Answer] = {
    "500": as_json({"error": "oops"}, 500),
    "400": as_json({"error": "oops"}, 400),
    "401": as_json({"error": "oops"}, 401),
    "403": as_json({"error": "oops"}, 403),
    "a redirect": Answer(302, b"", {"Location": "http://127.0.0.1:1/"}),
    "too many, for ever": as_json({}, 429, **{"Retry-After": "1"}),
    "too many, for too long": as_json({}, 429, **{"Retry-After": "86400"}),
    "an empty answer": Answer(200, b""),
    "garbage": Answer(200, b"<html>maintenance</html>"),
    "half of a page": Answer(200, b'{"value": [{"id": "1"'),
    "another form": as_json({"unexpected": 1}),
    "a list of numbers": as_json([1, 2]),
    "a key twice": Answer(200, b'{"id": 1, "id": 2}'),
    "a broken connection": Answer(body=None),
    "a body cut off": Answer(200, b"[]", is_cut=True),
    "10 MB": Answer(200, b'{"x": "' + b"x" * (10 * 1024 * 1024) + b'"}'),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_any_page_that_fails_leaves_everything_as_it_was(stage: Stage, fault: str) -> None:
    await stage.read()
    before = await stage.versions()
    targets = list(dict.fromkeys(request.target for request in stage.directory.requests))
    assert len(targets) > 3
    for target in targets if ALL else targets[list(FAULTS).index(fault) % SAMPLE :: SAMPLE]:
        stage.directory.fault = lambda request, target=target: FAULTS[fault] if request.target == target else None  # type: ignore[misc]
        run = await stage.read_after_restart()
        assert run.error, f"{target} failed without an error"
        assert not any(secret in run.error for secret in SECRETS)
        assert await stage.versions() == before, target


async def test_a_page_that_never_comes_is_not_waited_for(stage: Stage) -> None:
    await stage.read()
    before = await stage.versions()
    for target in {request.path for request in stage.directory.requests}:
        stage.directory.fault = lambda request, target=target: Answer(never=True) if request.path == target else None  # type: ignore[misc]
        assert "idp_refresh_directory_timeout" in (await stage.read_after_restart(timeout=0.05)).error
    assert await stage.versions() == before


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
async def test_transient_directory_error_is_retried(stage: Stage, status: int) -> None:
    failed: set[str] = set()

    def fault(request: Request) -> Answer | None:
        if request.target in failed:
            return None
        failed.add(request.target)
        return as_json({}, status, **({"Retry-After": "1"} if status == 429 else {}))

    stage.directory.fault = fault
    assert (await stage.read()).error == ""
    assert await stage.users() == stage.directory.expected()[0]
    assert len(stage.slept) == len(failed)


async def test_credentials_never_leave_the_directorys_own_host(stage: Stage) -> None:
    """Neither by a next link nor by a redirect."""
    async with Foreign() as foreign:
        stage.directory.foreign = foreign.url
        run = await stage.read()
        if stage.directory.provider not in ("google", "auth0"):  # their pages contain no URL of the next page
            assert "another host" in run.error
            assert await stage.versions() == []
        stage.directory.foreign = ""
        redirect = Answer(302, b"", {"Location": f"{foreign.url}/x"})
        stage.directory.fault = lambda request: redirect if not request.path.endswith("/token") else None
        assert "status 302" in (await stage.read_after_restart()).error
        assert foreign.requests == []


async def test_a_listing_that_goes_in_circles_ends(stage: Stage) -> None:
    """Each page is the first one, and says that there are more."""
    first: dict[str, Answer] = {}

    def fault(request: Request) -> Answer | None:
        if request.path.endswith(("/token", "/graphql")):
            return None
        return first.setdefault(request.path, stage.directory.handle(request))

    stage.directory.fault = fault
    run = await stage.read()
    assert run.error or stage.directory.provider == "auth0"
    assert len(stage.directory.requests) < 100


async def test_a_reading_that_would_remove_more_than_half_stops(stage: Stage) -> None:
    await stage.read()
    before, known = await stage.versions(), in_no_group(stage, await stage.users())
    stage.directory.company.members = {group: [] for group in stage.directory.company.groups}
    stage.directory.company.users = {"carol": ("Carol Clark", "carol@corp.example")}
    stage.directory.changed = dict.fromkeys(stage.directory.company.groups, "2026-02-02T00:00:00.000Z")  # type: ignore[attr-defined]
    run = await stage.read()
    assert "users would be removed" in run.error
    assert "--force" in run.error
    assert await stage.versions() == before
    assert (await stage.read_after_restart()).error == ""
    assert await stage.users() == known | stage.directory.expected()[0]


async def test_no_output_holds_a_secret(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    await stage.read()
    stage.directory.fault = lambda request: as_json({}, 401)
    run = await stage.read_after_restart()
    output = "".join(capsys.readouterr()) + run.error + repr(stage.source.__dict__)
    assert not any(secret in output for secret in SECRETS)


class Foreign(FakeApi):
    def handle(self, request: Request) -> Answer:
        return as_json([])
