"""Okta's directory as npm `emulate` tells it, which nobody here wrote: its people, groups and their changes become records."""

from pathlib import Path

from tests.support.directory_stage import Stage
from tests.support.vendors import ALICE, Emulators, OktaAdministration


async def test_people_and_groups_of_okta_and_their_changes_become_records(emulated: Emulators, tmp_path: Path) -> None:
    okta = OktaAdministration(emulated.url("okta"))
    stage = Stage(okta, tmp_path)  # type: ignore[arg-type]  # of a directory it takes the settings only
    alice = str(okta.ask("GET", f"/users/{ALICE}")["id"])
    engineering, sales = okta.new_group("Engineering"), okta.new_group("Sales")
    try:
        okta.ask("PUT", f"/groups/{engineering}/users/{alice}")
        assert (await stage.read()).error == ""
        person = (await stage.users())[f"okta/{alice}"]
        assert (person.email, person.name) == (ALICE, "Alice Adams")
        assert engineering in person.group_ids
        assert sales not in person.group_ids
        assert {(await stage.groups())[id].name for id in (engineering, sales)} == {"Engineering", "Sales"}

        okta.ask("PUT", f"/groups/{sales}/users/{alice}")
        okta.ask("DELETE", f"/groups/{engineering}/users/{alice}")
        # As a whole: this emulator does not tell, as Okta does, that the members of a group have changed.
        assert (await stage.read_anew()).error == ""
        groups = set((await stage.users())[f"okta/{alice}"].group_ids)
        assert (sales in groups, engineering in groups) == (True, False)

        found = await stage.source.look_up(f"okta/{alice}", "")
        assert found is not None
        assert set(found.user.group_ids) == groups

        before = await stage.versions()
        assert (await stage.read_anew()).changed == 0
        assert await stage.versions() == before
    finally:
        for group in (engineering, sales):
            okta.ask("DELETE", f"/groups/{group}")
        okta.close()
        await stage.source.close()
