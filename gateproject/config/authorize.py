"""The settings of the decision: where groups come from, and who may enter the admin."""

from typing import Annotated, Any

from pydantic import Field, PlainValidator

from gateproject.config.fields import Bool, ExistingFile, TextList, text
from gateproject.config.validation import Settings


def _claim_or_nothing(value: Any) -> str:
    return "" if value == "" else text(value)


class AuthorizeSettings(Settings):
    directory_file: ExistingFile | None = Field(None, description="A YAML, JSON or CSV file of users and groups.")
    groups_claim: Annotated[str, PlainValidator(_claim_or_nothing)] = Field(
        "groups", description="The claim whose values count as groups; empty for none."
    )
    admin_allowed_users: TextList = Field((), description="Who enters the admin by single sign-on.")
    admin_allowed_groups: TextList = Field((), description="Whose members enter the admin by single sign-on.")
    admin_password_login: Bool = Field(False, description="Accounts with a password may sign in to the admin too.")
