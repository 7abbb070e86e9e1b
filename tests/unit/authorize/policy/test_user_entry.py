"""An entry is one kind of thing, by its form alone."""

import pytest

from authorize.policy.user_entry import EntryKind, parse_user_entry

CI = "https://ci.example.com"


@pytest.mark.parametrize(
    ("written", "kind", "name", "provider"),
    [
        ("Ann@Corp.example", EntryKind.EMAIL, "ann@corp.example", ""),
        ("oidc/Alice", EntryKind.USER_ID, "oidc/Alice", "oidc"),
        ("oidc/oidc/alice", EntryKind.USER_ID, "oidc/oidc/alice", "oidc"),
        ("oidc/ann@corp.example", EntryKind.USER_ID, "oidc/ann@corp.example", "oidc"),
        ("auth0/auth0|5f7c8ec7c33c6c004bbafe82", EntryKind.USER_ID, "auth0/auth0|5f7c8ec7c33c6c004bbafe82", "auth0"),
        (f"{CI}#repo:a/b", EntryKind.USER_ID, f"{CI}#repo:a/b", CI),
        (f"{CI}/t#a#b", EntryKind.USER_ID, f"{CI}/t#a#b", f"{CI}/t"),
        ("service_account/deploy", EntryKind.USER_ID, "service_account/deploy", "service_account"),
        ("alice", EntryKind.SUBJECT, "alice", ""),
        ("auth0|5f7c8ec7c33c6c004bbafe82", EntryKind.SUBJECT, "auth0|5f7c8ec7c33c6c004bbafe82", ""),
    ],
)
def test_entry_kind_follows_from_form(written: str, kind: EntryKind, name: str, provider: str) -> None:
    entry = parse_user_entry(written)
    assert (entry.kind, entry.name, entry.provider, entry.is_issuer_qualified) == (kind, name, provider, provider.startswith("https://"))


@pytest.mark.parametrize(
    "written", ["", "/", "/alice", "oidc/", CI, f"{CI}#", f"{CI}/team", "a@b@c", "@corp.example", "ann@", "ann@corp..example"]
)
def test_unmatchable_entry_is_rejected(written: str) -> None:
    with pytest.raises(ValueError, match=r"must have|matches no user|is not an e-mail address"):
        parse_user_entry(written)
