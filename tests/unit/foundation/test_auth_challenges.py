import pytest

from foundation.auth_challenges import INVALID_TOKEN, UNAUTHENTICATED, challenge, missing_headers


def test_a_challenge_names_its_realm_and_what_is_wrong() -> None:
    assert UNAUTHENTICATED == 'Bearer realm="gate"'
    assert INVALID_TOKEN.startswith('Bearer realm="gate", error="invalid_token", error_description="')
    assert challenge("Gate", realm="db.example.com:5432", error="") == 'Gate realm="db.example.com:5432"'


@pytest.mark.parametrize(
    ("status", "names", "expected"),
    [
        (200, [], []),
        (401, [], [(b"www-authenticate", UNAUTHENTICATED.encode())]),
        (401, [b"www-authenticate"], []),
        (503, [b"vary"], [(b"retry-after", b"5")]),
        (503, [b"retry-after"], []),
    ],
)
def test_an_answer_owes_what_nobody_said_yet(status: int, names: list[bytes], expected: list[tuple[bytes, bytes]]) -> None:
    assert missing_headers(status, names) == expected
