"""Settings of authorization: groups, access to the admin, and the decision log."""

from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import AfterValidator, Field

from config.fields.basic_types import (
    Base64Secret,
    Bool,
    ExistingFile,
    File,
    Number,
    PositiveDuration,
    ServiceUrl,
    TextList,
    file_form,
    integer_up_to,
    text,
    text_list,
    value_or_file,
)
from config.fields.field_type import FieldType, JsonSchema
from config.parsing.document import KeyPath
from config.routes.policy.policy_tests import PolicyTest, read_policy_test_file
from config.routes.upstreams.upstream_credentials import check_cloud_service_account, check_single_authorization
from config.validation import Rule, Settings
from foundation.values import SecretBytes, SecretText, Url

if TYPE_CHECKING:
    from config.options import Options


def _claim_or_nothing(value: Any) -> str:
    return "" if value == "" else text(value)


MIN_TOKEN_LENGTH = 32
_TOKEN: JsonSchema = {"type": "string", "minLength": MIN_TOKEN_LENGTH}
TOKENS: JsonSchema = {"anyOf": [{"type": "array", "items": _TOKEN}, _TOKEN]}


def _ext_authz_tokens(value: Any) -> tuple[SecretText, ...]:
    tokens = text_list(value)
    if any(len(token) < MIN_TOKEN_LENGTH or not token.isascii() for token in tokens):
        raise ValueError(
            f"each token must have at least {MIN_TOKEN_LENGTH} ASCII characters. Generate it with `head -c32 /dev/urandom | base64`"
        )
    return tuple(map(SecretText, tokens))


def effective_groups_claim(settings: "Options") -> str:
    """Return the claim that contains groups, or "" for none.

    The default is set for `oidc` only: the tokens of other vendors name groups in too many ways to trust a claim by default.
    """
    chosen: str | None = settings.groups_claim
    return chosen if chosen is not None else ("groups" if settings.idp_provider == "oidc" else "")


# One entry takes about a kilobyte.
MAX_DECISION_LOG_SIZE = 10_000_000


def _fraction(rate: Decimal) -> Decimal:
    if rate > 1:
        raise ValueError("must be a number from 0 to 1")
    return rate


class AuthorizeSettings(Settings):
    RULES: ClassVar[tuple[Rule, ...]] = (check_cloud_service_account, check_single_authorization)

    enable_cloud_serverless_authentication: Bool = Field(
        False,
        description="Sends a signed `Authorization` header to cloud serverless upstreams, on routes that do not override it.",
        examples=[True],
    )
    cloud_serverless_authentication_service_account_file: File | None = Field(
        None, description="File form of `cloud_serverless_authentication_service_account`, in JSON.", examples=["account.json"]
    )
    cloud_serverless_authentication_service_account: Annotated[
        Base64Secret | None, value_or_file("cloud_serverless_authentication_service_account_file", SecretBytes)
    ] = Field(
        None,
        validate_default=True,
        description="Service account of that header: its JSON key file.",
        examples=["BASE64-OF-account.json"],
        json_schema_extra={"when_unset": "the machine's account, from its metadata server"},
    )
    cloud_serverless_metadata_url: ServiceUrl = Field(
        Url("http", "metadata.google.internal"),
        description="URL of the cloud metadata server.",
        examples=["http://169.254.169.254"],
    )
    jwt_groups_filter: TextList | None = Field(
        None,
        description="Groups that upstreams receive, in addition to those that the route's policy names. An empty list adds none.",
        examples=[["engineering", "sales"]],
        json_schema_extra={"when_unset": "all groups of the user"},
    )
    directory_file: ExistingFile | None = Field(
        None, description="Path to a YAML, JSON or CSV file with users and groups.", examples=["directory.yaml"]
    )
    groups_claim: Annotated[str | None, FieldType("string", _claim_or_nothing, {"type": "string"})] = Field(
        None,
        description="Claim whose values count as groups, in addition to directory groups. Write nested claims with dots. An empty "
        "value disables it.",
        examples=["roles"],
        json_schema_extra={"when_unset": "`groups` for `oidc`, none for vendors"},
    )
    admin_allowed_users: TextList = Field(
        (), description="Users who may open the admin, written as in `allowed_users`.", examples=[["alice@example.com"]]
    )
    admin_allowed_groups: TextList = Field((), description="Groups whose members may open the admin.", examples=[["operators"]])
    ext_authz_tokens_file: File | None = file_form("ext_authz_tokens", "ext-authz-tokens", has_lines=True)
    ext_authz_tokens: Annotated[tuple[SecretText, ...], FieldType("list of string", _ext_authz_tokens, TOKENS)] = Field(
        (),
        description="Bearer tokens, at least 32 characters each, of Envoy proxies that may call the ext_authz API.",
        examples=[["PUT-A-LONG-RANDOM-TOKEN-OF-32-CHARACTERS-HERE"]],
    )
    admin_password_login: Bool = Field(
        False, description="Also lets Django superusers sign in to the admin with a password.", examples=[True]
    )
    decision_log_size: Annotated[int, integer_up_to(MAX_DECISION_LOG_SIZE)] = Field(
        50_000,
        description="Maximum number of recorded decisions. `0` disables the log.",
        examples=[200_000],
    )
    decision_log_age: PositiveDuration = Field(timedelta(days=30), description="Maximum age of a recorded decision.", examples=["168h"])
    decision_log_sample_rate: Annotated[Number, AfterValidator(_fraction)] = Field(
        Decimal("0.01"),
        description="Fraction of allowed requests and sign-in redirects that are recorded, in addition to the first per user, "
        "route and hour. Denied requests are always recorded.",
        examples=[1],
    )
    policy_tests: tuple[PolicyTest, ...] = Field(
        (),
        description="Requests and their expected results. gate rejects a configuration that fails one.",
        examples=[[{"url": "https://app.example.com/", "user": "alice@example.com", "groups": ["engineering"], "expect": "allow"}]],
    )
    policy_tests_file: File | None = Field(
        None,
        description="Path to a file with further policy tests.",
        examples=["policy-tests.yaml"],
    )

    @property
    def all_policy_tests(self) -> tuple[tuple[KeyPath, PolicyTest], ...]:
        """Policy tests with their key paths."""
        here: list[tuple[KeyPath, PolicyTest]] = [(("policy_tests", index), test) for index, test in enumerate(self.policy_tests)]
        return (*here, *(read_policy_test_file(self.policy_tests_file).tests if self.policy_tests_file else ()))
