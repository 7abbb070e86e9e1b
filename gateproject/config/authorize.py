"""The settings of the decision: where groups come from, and who may enter the admin."""

from typing import Annotated, Any

from pydantic import Field

from gateproject.config.fields import Bool, ExistingFile, TextList, text
from gateproject.config.reader import Reader
from gateproject.config.validation import Settings


def _claim_or_nothing(value: Any) -> str:
    return "" if value == "" else text(value)


class AuthorizeSettings(Settings):
    directory_file: ExistingFile | None = Field(
        None, description="A YAML, JSON or CSV file of users and groups, read again when it changes.", examples=["directory.yaml"]
    )
    groups_claim: Annotated[str, Reader("string", _claim_or_nothing, {"type": "string"})] = Field(
        "groups",
        description="The claim of the ID token or userinfo whose values count as groups besides the directory; empty for none.",
        examples=["roles"],
    )
    admin_allowed_users: TextList = Field((), description="Who enters the admin by single sign-on.", examples=[["alice@example.com"]])
    admin_allowed_groups: TextList = Field((), description="Whose members enter the admin by single sign-on.", examples=[["operators"]])
    admin_password_login: Bool = Field(False, description="Accounts with a password may sign in to the admin too.", examples=[True])
