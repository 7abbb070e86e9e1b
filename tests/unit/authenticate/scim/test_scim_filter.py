"""Filters follow RFC 7644, and the work for any client text is bounded."""

import pytest

from authenticate.scim.scim_errors import ScimError
from authenticate.scim.scim_filter import parse_filter

BJENSEN = {
    "userName": "bjensen@example.com",
    "externalId": "00uA",
    "active": True,
    "name": {"familyName": "O'Malley", "givenName": "Barbara"},
    "emails": [{"type": "work", "value": "bjensen@example.com", "primary": True}, {"type": "home", "value": "b@home.example.net"}],
    "title": "",
    "size": 5,
    "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User": {"department": "Sales"},
}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ('userName eq "bjensen@example.com"', True),
        ('username Eq "BJensen@example.com"', True),
        ('externalId eq "00ua"', False),
        ('externalId eq "00uA"', True),
        ('userName eq "bjensen"', False),
        ('name.familyName co "O\'M"', True),
        ('userName sw "bj"', True),
        ('userName ew ".net"', False),
        ('urn:ietf:params:scim:schemas:core:2.0:User:userName sw "b"', True),
        ('urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:department eq "sales"', True),
        ("title pr", False),
        ("emails pr", True),
        ("nothing pr", False),
        ('userName ne "x"', True),
        ("active eq true", True),
        ("active eq false", False),
        ('active eq "true"', False),
        ("size eq 5", True),
        ("size gt 4", True),
        ("size le 4", False),
        ('size gt "4"', False),
        ('emails eq "b@home.example.net"', True),
        ('emails.type eq "work"', True),
        ('emails[type eq "work" and value co "@example.com"]', True),
        ('emails[type eq "home" and value co "@example.com"]', False),
        ('emails[type eq "work"].value eq "bjensen@example.com"', True),
        ('emails[type eq "home"].value eq "bjensen@example.com"', False),
        ('emails[type eq "home"].primary pr', False),
        ('userName eq "x" or emails[type eq "work"].value ew ".com" and active eq true', True),
        ('userName eq "x" or externalId eq "00uA"', True),
        ('userName eq "x" and externalId eq "00uA"', False),
        ('userName eq "x" and title pr or active eq true', True),
        ('userName eq "x" and (title pr or active eq true)', False),
        ("not (title pr)", True),
        ('not (userName sw "b") or size eq 5', True),
        ('name.givenName eq "Bar\\u0062ara"', True),
    ],
)
def test_filter_operators(text: str, matches: bool) -> None:
    assert parse_filter(text).matches(BJENSEN) is matches


@pytest.mark.parametrize(
    ("text", "equals"),
    [
        ('userName eq "A"', ("username", "A")),
        ('urn:ietf:params:scim:schemas:core:2.0:Group:displayName eq "A"', ("displayname", "A")),
        ('userName eq "A" and active eq true', None),
        ('name.givenName eq "A"', None),
        ('userName co "A"', None),
        ("active eq true", None),
        ('not (userName eq "A")', None),
    ],
)
def test_index_is_used_only_for_exact_filters(text: str, equals: tuple[str, str] | None) -> None:
    assert parse_filter(text).equals == equals


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "userName", "userName eq", 'eq "x"', 'userName is "x"', "userName eq x", 'userName eq "x', 'userName eq "x" and',
        'userName eq "x")', '(userName eq "x"', 'emails[type eq "x"', 'userName eq "x" active eq true', "userName eq [1]", "userName eq {}",
        "(" * 500 + 'a eq "x"' + ")" * 500, "not " * 100 + "(a pr)", 'a eq "' + "x" * 3000 + '"', '"x" eq "y"', "userName eq 1e999 )",
        'emails[type eq "x"]. eq "y"', 'emails[type eq "x"]..value pr', 'emails[type eq "x"].value', 'emails[type eq "x"]value pr',
        "urn:ietf:params:scim:schemas:core:2.0:User pr", 'urn:ietf:params:scim:schemas:core:2.0:User[active eq true]',
    ],
)  # fmt: skip
def test_unknown_filter_is_refused_by_name(text: str) -> None:
    with pytest.raises(ScimError) as refused:
        parse_filter(text)
    assert (refused.value.status, refused.value.kind) == (400, "invalidFilter")
