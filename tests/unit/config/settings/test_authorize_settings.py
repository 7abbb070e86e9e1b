"""Source of groups, and users who may open the admin."""

from pathlib import Path

from config.settings.authorize_settings import effective_groups_claim
from tests.unit.config.conftest import Load, Problems


def test_admin_admits_no_user_by_default(load: Load) -> None:
    options = load()
    assert (options.admin_allowed_users, options.admin_allowed_groups, options.admin_password_login) == ((), (), False)


def test_groups_come_from_the_claim_groups_of_a_generic_provider(load: Load) -> None:
    assert (effective_groups_claim(load()), load().directory_file) == ("groups", None)
    assert effective_groups_claim(load(groups_claim="")) == ""


def test_a_vendors_claim_counts_as_groups_only_where_it_is_named(load: Load, problems: Problems) -> None:
    assert effective_groups_claim(load(idp_provider="okta")) == ""
    assert effective_groups_claim(load(idp_provider="okta", groups_claim="groups")) == "groups"
    assert "directory_file or groups_claim" in problems(idp_provider="okta", admin_allowed_groups=["a"])["admin_allowed_groups"]


def test_a_directory_file_must_be_there(load: Load, problems: Problems, tmp_path: Path) -> None:
    assert "can't be read" in problems(directory_file="people.yaml")["directory_file"]
    (tmp_path / "people.yaml").write_text("users: []")
    assert load(directory_file="people.yaml").directory_file == tmp_path / "people.yaml"
