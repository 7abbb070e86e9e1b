"""Where groups come from, and who enters the admin."""

from pathlib import Path

from tests.unit.gateproject.config.conftest import Load, Problems


def test_nobody_enters_the_admin_by_default(load: Load) -> None:
    options = load()
    assert (options.admin_allowed_users, options.admin_allowed_groups, options.admin_password_login) == ((), (), False)


def test_groups_come_from_the_claim_groups_by_default(load: Load) -> None:
    assert (load().groups_claim, load().directory_file) == ("groups", None)
    assert load(groups_claim="").groups_claim == ""


def test_a_directory_file_must_be_there(load: Load, problems: Problems, tmp_path: Path) -> None:
    assert "can't be read" in problems(directory_file="people.yaml")["directory_file"]
    (tmp_path / "people.yaml").write_text("users: []")
    assert load(directory_file="people.yaml").directory_file == tmp_path / "people.yaml"
