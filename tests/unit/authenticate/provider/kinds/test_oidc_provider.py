"""Claims of a generic provider become a person."""

from pathlib import Path
from typing import Any

import pytest

from authenticate.provider.email_verification import merge_claims
from authenticate.provider.kinds.kind_registry import build_provider
from tests.support.options import make_options


def user(tmp_path: Path, **claims: Any) -> Any:
    return build_provider(make_options(tmp_path).first_provider).user({"sub": "a", **claims}, 5.0)


@pytest.mark.parametrize(
    ("claims", "is_verified"),
    [({}, None), *(({"email_verified": value}, True) for value in (True, "true", "TRUE")),
     *(({"email_verified": value}, False) for value in (False, "false", 0, 1, None, "", "yes", "1", [True], {"a": True}))],
)  # fmt: skip
def test_only_true_is_verified_and_only_absence_is_unknown(tmp_path: Path, claims: dict[str, Any], is_verified: bool | None) -> None:
    assert user(tmp_path, **claims).email_verified is is_verified


@pytest.mark.parametrize("doubt", [False, "false", None, 0, 1, [], "yes"])
def test_an_address_that_either_source_does_not_vouch_for_stays_unverified(tmp_path: Path, doubt: Any) -> None:
    yes, no = {"email_verified": True}, {"email_verified": doubt}
    for id_token, userinfo in ((no, yes), (yes, no)):
        assert user(tmp_path, **merge_claims(id_token, userinfo)).email_verified is False
    assert user(tmp_path, **merge_claims({"email_verified": True}, {})).email_verified is True
    assert user(tmp_path, **merge_claims({}, {"email": "new@corp.example"})).email_verified is None


@pytest.mark.parametrize(
    ("claims", "is_verified"),
    [
        ({"mail": "a@corp.example", "email_verified": True}, None),
        ({"mail": "a@corp.example", "email": "", "email_verified": True}, None),
        ({"mail": "a@corp.example", "email": ["a@corp.example"], "email_verified": "true"}, None),
        ({"mail": "a@corp.example", "email_verified": False}, False),
        ({"mail": "a@corp.example", "email": "b@corp.example", "email_verified": True}, True),
    ],
)
def test_email_verified_does_not_cover_mail(tmp_path: Path, claims: dict[str, Any], is_verified: bool | None) -> None:
    assert user(tmp_path, **claims).email_verified is is_verified


@pytest.mark.parametrize("id_token", [{"email_verified": True}, {"email_verified": True, "email": "a@corp.example"}])
def test_an_id_token_vouches_for_no_other_address_of_userinfo(tmp_path: Path, id_token: dict[str, Any]) -> None:
    assert user(tmp_path, **merge_claims(id_token, {"email": "b@corp.example"})).email_verified is False


@pytest.mark.parametrize("email", [["a@corp.example"], {"a": 1}, 7, None, True])
def test_an_email_that_is_no_text_is_none(tmp_path: Path, email: Any) -> None:
    assert user(tmp_path, email=email).email == ""


def test_user_is_identified_by_provider_and_subject(tmp_path: Path) -> None:
    signed_in = user(tmp_path, name="Ann", email="ann@corp.example")
    assert (signed_in.id, signed_in.name, signed_in.email, signed_in.last_sign_in_at) == ("oidc/a", "Ann", "ann@corp.example", 5.0)


def test_without_a_name_others_will_do(tmp_path: Path) -> None:
    assert user(tmp_path, given_name="Ann").name == "Ann"
    assert user(tmp_path, preferred_username="ann").name == "ann"


def test_the_issuer_is_as_written(tmp_path: Path) -> None:
    for issuer in ("https://idp.example.com", "https://idp.example.com/", "https://idp.example.com/realms/x"):
        assert build_provider(make_options(tmp_path, idp_provider_url=issuer).first_provider).issuer == issuer


def test_a_word_for_one_address_does_not_vouch_for_another(tmp_path: Path) -> None:
    id_token = {"email": "old@corp.example", "email_verified": True}
    assert user(tmp_path, **merge_claims(id_token, {"email": "new@corp.example"})).email_verified is False
    assert user(tmp_path, **merge_claims(id_token, {"email": "new@corp.example", "email_verified": True})).email_verified is True
    assert user(tmp_path, **merge_claims(id_token, {"email": "old@corp.example"})).email_verified is True


def test_ping_names_the_address_mail(tmp_path: Path) -> None:
    assert user(tmp_path, mail="ann@corp.example").email == "ann@corp.example"
    assert user(tmp_path, mail="ann").email == ""
    assert user(tmp_path, email="ann@corp.example", mail="other@corp.example").email == "ann@corp.example"
