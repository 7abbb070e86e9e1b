"""Beginning of a converted configuration."""

import base64

import pytest

from config.importing.conversion import ConvertedSection
from config.importing.policy_expressions import Expression
from config.importing.preamble import SIGNED_IN, grant_access, write_preamble


def values(part: ConvertedSection) -> dict[str, object]:
    return {entry.key: entry.value for entry in part.entries if entry.key}


def test_the_sign_in_is_below_the_domain_and_every_secret_is_another() -> None:
    top, secrets = ConvertedSection(), iter([b"a" * 32, b"b" * 32])
    write_preamble(top, "example.com", "https://idp.example.com", "", "", lambda: next(secrets))
    found = values(top)
    assert found["authenticate_service_url"] == "https://authenticate.example.com"
    assert found["idp_provider_url"] == "https://idp.example.com"
    assert (found["cookie_secret"], found["shared_secret"]) == tuple(base64.b64encode(each * 32).decode() for each in (b"a", b"b"))


@pytest.mark.parametrize(
    ("allowed", "written"),
    [
        (True, {"allow_public_unauthenticated_access": True}),
        (SIGNED_IN, {"allow_any_authenticated_user": True}),
        (False, {}),
        ({"groups": "a"}, {"policy": [{"allow": {"groups": "a"}}]}),
    ],
)
def test_allowed_users_are_written_concisely(allowed: Expression, written: dict[str, object]) -> None:
    route = ConvertedSection()
    grant_access(route, allowed)
    assert values(route) == written
    assert [note.mark for note in route.notes()] == (["CHECK"] if allowed is False else [])
