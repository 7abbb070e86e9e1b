"""A manual directory sync: output, writes, and exit status."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import override_settings

from config.settings.identity_providers import PLACEHOLDERS
from databroker.records import DIRECTORY_GROUP, DIRECTORY_RUN, DIRECTORY_USER, DirectoryUser
from databroker.store.memory import MemoryStore
from gateproject.management.commands import syncdirectory
from tests.support.options import make_options


class Desk:
    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        self.file = tmp_path / "directory.yaml"
        self.file.write_text("users: [{id: ann, name: Ann, groups: [g]}]\ngroups: [{id: g, name: G}]")
        self.options = make_options(tmp_path, directory_file=str(self.file))
        self.store = MemoryStore()
        store = self.store

        class Opened:
            def __init__(self, options: object):
                pass

            async def __aenter__(self) -> MemoryStore:
                return store

            async def __aexit__(self, *_: object) -> None:
                pass

        monkeypatch.setattr(syncdirectory, "open_broker", Opened)

    def run(self, *arguments: str, **settings: Any) -> str:
        out = StringIO()
        with override_settings(GATE_OPTIONS=self.options, GATE_CONFIG_ERROR=None, **settings):
            call_command("syncdirectory", *arguments, stdout=out)
        return out.getvalue()

    async def known(self, type: str = DIRECTORY_USER) -> list[str]:
        return [record.id for record in await self.store.page(type, "", 100)]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return Desk(tmp_path, monkeypatch)


def known(desk: Desk, type: str = DIRECTORY_USER) -> list[str]:
    return [id for its_type, id in desk.store._records if its_type == type]


def test_it_prints_differences_and_writes_them(desk: Desk) -> None:
    lines = desk.run().splitlines()
    assert lines[:2] == ["+ group g: name 'G'", "+ user oidc/ann: name 'Ann', into g"]
    assert lines[2].startswith("directory_file directory.yaml: 1 users, 1 groups; 2 added, 0 changed, 0 removed written; 0 requests in")
    assert known(desk) == ["oidc/ann"]
    assert len(known(desk, DIRECTORY_RUN)) == 1
    desk.file.write_text("users: [{id: ann, name: Anna, groups: [h]}]\ngroups: [{id: g, name: G}, {id: h}]")
    assert desk.run().splitlines()[:2] == ["+ group h: unchanged", "~ user oidc/ann: name 'Anna', into h, removed from g"]


def test_a_dry_run_writes_nothing(desk: Desk) -> None:
    assert "2 added, 0 changed, 0 removed would be written" in desk.run("--dry-run")
    assert known(desk) == known(desk, DIRECTORY_RUN) == []


def test_as_json_it_is_one_object(desk: Desk) -> None:
    found = json.loads(desk.run("--json", "--dry-run"))
    assert (found["users"], found["added"], found["error"], found["dry_run"]) == (1, 2, "", True)
    assert [(change["change"], change["type"], change["id"]) for change in found["changes"]] == [
        ("add", "group", "g"),
        ("add", "user", "oidc/ann"),
    ]


def test_long_list_is_truncated_with_mark(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syncdirectory, "MAX_LINES", 1)
    assert "... and 1 more" in desk.run()


def test_a_failure_is_the_commands_failure(desk: Desk) -> None:
    desk.file.write_text("users: {")
    with pytest.raises(CommandError, match="directory"):
        desk.run()


def test_without_directory_it_explains_how_to_configure_one(desk: Desk, tmp_path: Path) -> None:
    desk.options = make_options(tmp_path)
    with pytest.raises(CommandError, match="idp_service_account"):
        desk.run()


def test_the_bar_is_for_terminals_only(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    for stream, is_seen in ((Terminal(), True), (StringIO(), False)):
        monkeypatch.setattr("sys.stderr", stream)
        bar = syncdirectory.ProgressBar()
        bar.total = 4
        for _ in range(4):
            bar.step(1)
        bar.end()
        assert ("[##############################] 4/4" in stream.getvalue()) is is_seen
        assert bool(stream.getvalue()) is is_seen


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("", "https://idp.example.com", "of https://idp.example.com"),
        ("https://idp.example.com", "", "of every issuer"),
        ("", "", "unchanged"),
    ],
)
def test_reports_the_issuer_of_users(before: str, after: str, message: str) -> None:
    assert syncdirectory._differences(DirectoryUser("okta/1", issuer=before), DirectoryUser("okta/1", issuer=after)) == message


@pytest.fixture
def several(desk: Desk, tmp_path: Path) -> Desk:
    """Corp and partner have a file each, and at both there is an ann; other has no directory."""
    (tmp_path / "partner.yaml").write_text("users: [{id: ann, name: Mallory, groups: [g]}]")
    keys = {"provider": "oidc", "client_id": "gate", "client_secret": "secret", "domains": []}
    files = {"corp": "directory.yaml", "partner": "partner.yaml"}
    entries = [{"id": id, "url": f"https://{id}.example", "directory_file": file, **keys} for id, file in files.items()]
    entries.append({"id": "other", "url": "https://other.example", **keys})
    desk.options = make_options(tmp_path, **dict.fromkeys(PLACEHOLDERS), identity_providers=entries)
    return desk


def test_each_of_several_directories_is_read_and_named(several: Desk) -> None:
    lines = several.run().splitlines()
    assert (lines[0], lines[2], lines[4]) == ("corp:", "+ user corp/ann: name 'Ann', into g", "partner:")
    assert "+ user partner/ann: name 'Mallory', into g" in lines
    assert known(several) == ["corp/ann", "partner/ann"]
    assert known(several, DIRECTORY_GROUP) == ["corp/g", "partner/g"]
    assert {id.partition("/")[0] for id in known(several, DIRECTORY_RUN)} == {"corp", "partner"}


def test_one_of_several_can_be_read_alone(several: Desk) -> None:
    output = several.run("--provider", "partner", "--json")
    assert (set(json.loads(output)), known(several)) == ({"partner"}, ["partner/ann"])
    for unknown in ("other", "nobody"):
        with pytest.raises(CommandError, match=f"{unknown} has no directory .*: corp, partner"):
            several.run("--provider", unknown)


def test_one_of_several_that_fails_keeps_no_other_from_being_read(several: Desk) -> None:
    several.file.write_text("users: {")
    with pytest.raises(CommandError, match=r"^corp: "):
        several.run()
    assert known(several) == ["partner/ann"]


def test_without_any_directory_it_explains_how_to_configure_one(several: Desk, tmp_path: Path) -> None:
    keys = {"provider": "oidc", "client_id": "gate", "client_secret": "secret"}
    entries = [{"id": "corp", "url": "https://corp.example", **keys}]
    several.options = make_options(tmp_path, **dict.fromkeys(PLACEHOLDERS), identity_providers=entries)
    with pytest.raises(CommandError, match=r"service_account or directory_file .* identity_providers"):
        several.run()
