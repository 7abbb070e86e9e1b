"""Members of `idp_service_account` by provider, and the errors for other content."""

import json

import pytest

from config.settings.directory_account import ACCOUNT_FIELDS, PROVIDERS_WITH_DIRECTORY, expected_fields, parse_account, tenant_from_url
from tests.support.cloud import account_json

TENANT = "11111111-2222-3333-4444-555555555555"
SECRET = "hunter2sEcReT"


def account(provider: str, **changes: object) -> bytes:
    members: dict[str, object] = {name: TENANT if name == "directory_id" else SECRET for name in ACCOUNT_FIELDS[provider]}
    return json.dumps({name: value for name, value in {**members, **changes}.items() if value is not None}).encode()


@pytest.mark.parametrize("provider", ACCOUNT_FIELDS)
def test_the_members_of_each_provider(provider: str) -> None:
    parsed = parse_account(provider, account(provider))
    assert {name: parsed.reveal(name) for name in parsed.values} == json.loads(account(provider))
    assert SECRET not in repr(parsed)


@pytest.mark.parametrize(("provider", "member"), [(provider, name) for provider, names in ACCOUNT_FIELDS.items() for name in names])
@pytest.mark.parametrize("value", [None, "", 5, "a b", "a\nb", ["x"]])
def test_a_member_that_is_missing_or_unusable_is_named_with_the_shape(provider: str, member: str, value: object) -> None:
    with pytest.raises(ValueError, match=member) as raised:
        parse_account(provider, account(provider, **{member: value}))
    assert expected_fields(provider) in str(raised.value)
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize("provider", sorted(PROVIDERS_WITH_DIRECTORY - {"okta"}))
@pytest.mark.parametrize("content", [b"", b"x", b"[]", b'"x"', b"\xff", b"[" * 100_000])
def test_non_object_is_refused(provider: str, content: bytes) -> None:
    with pytest.raises(ValueError, match="JSON"):
        parse_account(provider, content)


def test_oktas_key_may_stand_alone() -> None:
    assert parse_account("okta", b"00abc\n").reveal("api_key") == "00abc"
    with pytest.raises(ValueError, match="api_key"):
        parse_account("okta", b"two words")


def test_google_has_key_file_and_impersonated_user() -> None:
    document = json.loads(account_json())
    parsed = parse_account("google", json.dumps({**document, "impersonate_user": "admin@corp.example"}).encode())
    assert (parsed.subject, parsed.key.email if parsed.key else "") == ("admin@corp.example", document["client_email"])
    for broken in (document, {"impersonate_user": "admin@corp.example"}, {**document, "impersonate_user": "admin"}):
        with pytest.raises(ValueError, match="impersonate_user"):
            parse_account("google", json.dumps(broken).encode())


@pytest.mark.parametrize("tenant", ["common", "organizations", "../x", "a/b", "a b", "x?y"])
def test_a_directory_is_one_tenants(tenant: str) -> None:
    with pytest.raises(ValueError, match="directory_id"):
        parse_account("azure", account("azure", directory_id=tenant))


def test_provider_without_directory_suggests_alternative() -> None:
    with pytest.raises(ValueError, match="directory_file or groups_claim"):
        parse_account("oidc", b"{}")


@pytest.mark.parametrize(
    ("url", "tenant"),
    [
        (f"https://login.microsoftonline.com/{TENANT}/v2.0", TENANT),
        ("https://login.microsoftonline.com/corp.example/v2.0", "corp.example"),
        ("https://login.microsoftonline.com/common/v2.0", ""),
        ("https://login.microsoftonline.com", ""),
        ("", ""),
    ],
)
def test_the_tenant_of_a_provider_url(url: str, tenant: str) -> None:
    assert tenant_from_url(url) == tenant
