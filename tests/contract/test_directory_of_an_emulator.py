"""Okta's and GitHub's directories in npm's independent emulator `emulate`: users, groups and their changes become records."""

from base64 import b64encode
from pathlib import Path

import httpx

from tests.support.directory_stage import Stage
from tests.support.vendors import ALICE, ROBOT_TOKEN, Emulators, OktaAdministration


async def test_okta_users_and_groups_and_changes_become_records(emulated: Emulators, tmp_path: Path) -> None:
    okta = OktaAdministration(emulated.url("okta"))
    stage = Stage(okta, tmp_path)  # type: ignore[arg-type]  # of a directory it takes the settings only
    alice = str(okta.ask("GET", f"/users/{ALICE}")["id"])
    engineering, sales = okta.new_group("Engineering"), okta.new_group("Sales")
    try:
        okta.ask("PUT", f"/groups/{engineering}/users/{alice}")
        assert (await stage.read()).error == ""
        user = (await stage.users())[f"okta/{alice}"]
        assert (user.email, user.name) == (ALICE, "Alice Adams")
        assert engineering in user.group_ids
        assert sales not in user.group_ids
        assert {(await stage.groups())[id].name for id in (engineering, sales)} == {"Engineering", "Sales"}

        okta.ask("PUT", f"/groups/{sales}/users/{alice}")
        okta.ask("DELETE", f"/groups/{engineering}/users/{alice}")
        # A full synchronization: unlike Okta, this emulator does not report changed members of a group.
        assert (await stage.read_after_restart()).error == ""
        groups = set((await stage.users())[f"okta/{alice}"].group_ids)
        assert (sales in groups, engineering in groups) == (True, False)

        found = await stage.source.look_up(f"okta/{alice}", "")
        assert found is not None
        assert set(found.user.group_ids) == groups

        before = await stage.versions()
        assert (await stage.read_after_restart()).changed == 0
        assert await stage.versions() == before
    finally:
        for group in (engineering, sales):
            okta.ask("DELETE", f"/groups/{group}")
        okta.close()
        await stage.source.close()


class GitHub:
    """gate's settings for it. The emulator lacks GraphQL, which the look-up at sign-in queries for a user's teams."""

    def __init__(self, url: str):
        self.url = url

    def settings(self) -> dict[str, str]:
        account = b64encode(f'{{"personal_access_token": "{ROBOT_TOKEN}"}}'.encode()).decode()
        return {"idp_provider": "github", "idp_provider_url": self.url, "idp_directory_url": self.url, "idp_service_account": account}


async def test_teams_of_github_and_their_changes_become_records(emulated: Emulators, tmp_path: Path) -> None:
    url = emulated.url("github")
    stage = Stage(GitHub(url), tmp_path)  # type: ignore[arg-type]
    with httpx.Client(base_url=f"{url}/orgs/corp", headers={"Authorization": f"Bearer {ROBOT_TOKEN}"}, trust_env=False) as owner:
        # More than one page holds.
        numbers = {f"team-{number}": str(owner.post("/teams", json={"name": f"team-{number}"}).json()["id"]) for number in range(101)}
        try:
            owner.put("/teams/team-100/memberships/alice", json={"role": "member"}).raise_for_status()
            assert (await stage.read()).error == ""
            groups = await stage.groups()
            assert {slug: groups[id].name for slug, id in numbers.items()} == {slug: slug for slug in numbers}
            alice = (await stage.users())["github/alice"]
            assert (alice.name, alice.email) == ("Alice Adams", ALICE)
            assert numbers["team-100"] in alice.group_ids
            assert numbers["team-1"] not in alice.group_ids

            owner.put("/teams/team-1/memberships/alice", json={"role": "member"}).raise_for_status()
            owner.delete("/teams/team-100/memberships/alice").raise_for_status()
            assert (await stage.read()).error == ""
            teams = (await stage.users())["github/alice"].group_ids
            assert (numbers["team-1"] in teams, numbers["team-100"] in teams) == (True, False)
            before = await stage.versions()
            assert (await stage.read()).changed == 0
            assert await stage.versions() == before
        finally:
            for slug in numbers:
                owner.delete(f"/teams/{slug}")
            await stage.source.close()
