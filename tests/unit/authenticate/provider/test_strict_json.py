"""JSON has one reading, or is refused."""

import pytest

from authenticate.provider.strict_json import parse_object


def test_an_object_is_read() -> None:
    assert parse_object('{"a": [1, 2.5, null, true], "ä": {"b": "é"}}'.encode()) == {"a": [1, 2.5, None, True], "ä": {"b": "é"}}


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b"1", b"null",
    b'{"a":1,"a":1}', b'{"a":{"b":1,"b":2}}', b'{"a":NaN}', b'{"a":-Infinity}', b'{"a":1e999}', b'{"a":"\\udfff"}',
     b'{"\\ud800":1}', b"\xff", '{"a":1}'.encode("utf-16"), b"\xef\xbb\xbf{}", b"{}{}", b'{"a":' * 100_000, b'{"a":' + b"9" * 5000 + b"}"],
)  # fmt: skip
def test_everything_else_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - each reader has its own words
        parse_object(text)
