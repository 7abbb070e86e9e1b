"""Codes of devices: random, readable however they are typed, and not in their record."""

import pytest

from config.options import Options
from foundation.crypto.agent_token import AgentTokenKind, parse_session_id
from foundation.crypto.device_codes import USER_CODE_CHARACTERS, DeviceCodes, normalize_user_code


def test_codes_lead_to_one_record(options: Options) -> None:
    codes = DeviceCodes(options)
    new, other = codes.new(), codes.new()
    assert set(new.user_code.replace("-", "")) <= set(USER_CODE_CHARACTERS)
    assert len({new.user_code, other.user_code, new.device_code.token, other.device_code.token, new.record_id, other.record_id}) == 6
    assert codes.record_ids(normalize_user_code(new.user_code))[0] == new.record_id
    assert parse_session_id(AgentTokenKind.DEVICE_CODE, new.device_code.token) == new.record_id
    assert parse_session_id(AgentTokenKind.CODE, new.device_code.token) == ""
    assert not any(secret in f"{new} {codes}" for secret in (new.user_code, new.device_code.token))


@pytest.mark.parametrize(
    ("typed", "code"),
    [
        ("BCDF-GHJK", "BCDF-GHJK"),
        (" bcdf ghjk\n", "BCDF-GHJK"),
        ("b-c-d-f-g-h-j-k", "BCDF-GHJK"),
        ("BCDFGHJK", "BCDF-GHJK"),
        ("BCDF-GHJA", ""),
        ("BCDF-GHJ", ""),
        ("BCDF-GHJKL", ""),
        ("BCDF_GHJK", ""),
        ("BCDF-GH\u017fK", ""),
        ("BCDFGHJK" + " " * 40, ""),
        ("", ""),
    ],
)
def test_typed_codes(typed: str, code: str) -> None:
    assert normalize_user_code(typed) == code


def test_record_of_an_older_key_is_found(options: Options) -> None:
    """`cookie_secret` may have several keys while it is rotated."""
    key = options.cookie_secret
    assert len(DeviceCodes(options).record_ids("BCDF-GHJK")) == len(key if isinstance(key, tuple) else (key,))
