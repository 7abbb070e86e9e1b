import pytest

from foundation.auth_challenges import INVALID_TOKEN, UNAUTHENTICATED, challenge, missing_headers


def test_challenge_names_realm_and_error() -> None:
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
def test_response_has_missing_security_headers_added(status: int, names: list[bytes], expected: list[tuple[bytes, bytes]]) -> None:
    assert missing_headers(status, names) == expected
