"""JSON of MCP messages: the fast parser never reads what the strict one reads differently or rejects."""

import json
import random
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.mcp import mcp_json
from proxy.mcp.mcp_json import parse_json, parse_strictly, serialize_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda parts: st.lists(parts, max_size=4) | st.dictionaries(st.text(max_size=4), parts, max_size=4),
    max_leaves=12,
)
# Mutations insert these: other spellings of numbers, keys and characters, and text that is not JSON.
FRAGMENTS = (
    *(
        b"-0",
        b"1.0",
        b"1e5",
        b"1E+5",
        b"0.10",
        b"1e999",
        b"-1e-999",
        b"9" * 25,
        b"9" * 5000,
        b"18446744073709551616",
        b"01",
        b"NaN",
        b"-Infinity",
    ),
    *(b'"a":1,', b'"a":1,"a":1,', b'"a":1,"\\u0061":2,', b"{}", b"[]", b"{", b"]", b",", b":", b'"', b"null", b"true", b"1"),
    *(b"\\u0000", b"\\u001F", b"\\u007f", b"\\/", b"\\ud800", b"\\ud83d\\ude00", b"\\udc00\\ud800", b"\\u2028", b"\\n", b"\\x", b"\\"),
    *(
        b"\0",
        b"\n",
        b" ",
        b"\x7f",
        b"\xff",
        b"\xc0\x80",
        b"\xed\xa0\x80",
        b"\xef\xbb\xbf",
        b"\xf4\x90\x80\x80",
        "\u2028".encode(),
        b"//",
        b"/**/",
    ),
)


def outcome(parse: Any, text: bytes) -> str:
    """Return the value with all types, signs and digits; "rejected" for an error."""
    try:
        return repr(parse(text))
    except (ValueError, RecursionError):
        return "rejected"


def mutate(chance: random.Random, text: bytes) -> bytes:
    at, length = chance.randrange(len(text) + 1), chance.choice([0, 0, 1, 3])
    return text[:at] + chance.choice(FRAGMENTS) + text[at + length :]


@settings(max_examples=400, deadline=None)
@given(VALUES, st.randoms(use_true_random=False))
def test_parsers_agree_on_every_text(value: Any, chance: random.Random) -> None:
    """Of each value 25 texts: 10,000 in all."""
    texts = [json.dumps(value, ensure_ascii=False, separators=(",", ":")), json.dumps(value, separators=(",", ":")), json.dumps(value)]
    for text in (each.encode() for each in texts):
        assert outcome(parse_json, text) == outcome(parse_strictly, text) == repr(value)
        for _ in range(8):
            text = mutate(chance, text)
            assert outcome(parse_json, text) == outcome(parse_strictly, text)


@pytest.mark.parametrize("fragment", FRAGMENTS)
@pytest.mark.parametrize("place", [b"%b", b'"%b"', b"[%b]", b'{"a":%b}', b'{"%b":1}', b'{"a":"%b"}', b"%b{}", b"{}%b", b'{%b"b":1}'])
def test_parsers_agree_on_every_spelling(fragment: bytes, place: bytes) -> None:
    text = place % fragment
    assert outcome(parse_json, text) == outcome(parse_strictly, text)


@pytest.mark.parametrize("depth", [64, 254, 255, 256, 900, 1024, 1025, 100_000])
def test_parsers_agree_on_deep_nesting(depth: int) -> None:
    for text in (b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth):
        assert outcome(parse_json, text) == outcome(parse_strictly, text)


@pytest.mark.parametrize(
    ("text", "is_canonical"),
    [
        (b'{"a":[1,-0.0,1.5,true,null,"\xc3\xa9\\n\\u0000"]}', True),
        (b'{"a":1, "b":2}', False),
        (b'{"a":1,"a":1}', False),
        (b'{"a":1e5}', False),
        (b'{"a":-0}', False),
        (b'{"a":18446744073709551616}', False),
        (b'{"a":"\\u00e9"}', False),
        (b'{"a":"\\/"}', False),
        (b'{"a":"\\ud800"}', False),
        (b"[" * 300 + b"]" * 300, False),
        (b"", False),
    ],
)
def test_only_canonical_texts_skip_the_strict_parser(text: bytes, is_canonical: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    strict: list[bytes] = []
    monkeypatch.setattr(mcp_json, "parse_strictly", strict.append)
    parse_json(text)
    assert strict == ([] if is_canonical else [text])


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (b'{ "a": [1.0, "\xc3\xa9"] }', b'{"a":[1.0,"\xc3\xa9"]}'),
        (b'{"a":"\\ud800"}', b'{"a":"?"}'),
        (b"[18446744073709551616]", b"[18446744073709551616]"),
        (b"[" * 300 + b"]" * 300, b"[" * 300 + b"]" * 300),
    ],
)
def test_every_parsed_value_is_written(text: bytes, written: bytes) -> None:
    assert serialize_json(parse_json(text)) == written


def test_orjson_writes_what_other_readers_read() -> None:
    """The proof is as good as this property of the writer."""
    for code in (*range(0x800), 0x2028, 0x2029, 0xD7FF, 0xE000, 0xFFFE, 0xFFFF, 0x10FFFF):
        text = orjson.dumps({chr(code): chr(code)})
        assert parse_strictly(text) == {chr(code): chr(code)}
