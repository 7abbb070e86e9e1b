"""Hostile documents end in a DocumentError, soon; honest ones keep their values and lines."""

import json
import math
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from config.parsing.document import MAX_VALUES, DocumentError, format_key_path
from config.parsing.parser import _bound_toml, parse
from tests.support.examples import examples

SCALARS = (
    st.none() | st.booleans() | st.integers(-(10**17), 10**17) | st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]))
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=4))


def from_yaml(text: str) -> Any:
    return parse(text.encode(), ".yaml").value


@given(VALUES)
@example("1e5")
@example(["-.5", "1.5e3", "<<", "=", "~"])
@examples(40)
def test_output_of_yaml_libraries_is_read_back(value: Any) -> None:
    assert from_yaml(yaml.safe_dump(value)) == value


@given(VALUES)
@examples(40)
def test_json_is_read_back(value: Any) -> None:
    assert parse(json.dumps(value).encode(), ".json").value == value


def test_toml_is_read() -> None:
    assert parse(b'a = "b"\n[[policy]]\nfrom = "x"\n', ".toml").value == {"a": "b", "policy": [{"from": "x"}]}


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("no", "no"),
        ("12:30", "12:30"),
        ("007", "007"),
        ("0", 0),
        ("-5", -5),
        ("1.5", 1.5),
        ("1e5", "1e5"),
        ("1.5e+3", 1500.0),
        ("~", None),
        ("true", True),
        ('"true"', "true"),
        ("2024-01-01", "2024-01-01"),
        ("=", "="),
        ("9" * 5000, "9" * 5000),
        ("!!str 5", "5"),
        (".inf", ".inf"),
        ("1.0e+999", math.inf),
    ],
)
def test_plain_scalars_are_numbers_only_where_yaml_1_1_and_1_2_agree(written: str, value: Any) -> None:
    assert from_yaml(written) == value


@pytest.mark.parametrize(
    ("text", "line", "cure"),
    [
        ("policy:\n  - from: a\n   to: b\n", 3, "this line is not"),
        ("policy:\n  - from: a\n      to: b\n", 3, "unexpected colon. Check the"),
        ("a: 1\nb:\n   c: 1\n  d: 1\n", 4, "this line is not"),
        ("policy:\n\t- from: a\n", 2, "a value can't start"),
        ("a: 'b\nc: d\n", 3, "unclosed"),
        ("from: *.example.com\n", 1, "must be in quotes"),
    ],
)
def test_yaml_error_suggests_fix(text: str, line: int, cure: str) -> None:
    with pytest.raises(DocumentError, match=cure) as caught:
        from_yaml(text)
    assert caught.value.line == line


def test_merge_keys_yield_to_explicit_keys() -> None:
    text = "base: &base {to: a, timeout: 1s}\nother: &other {to: b, name: c}\nroute:\n  <<: [*base, *other]\n  timeout: 2s\n"
    assert from_yaml(text)["route"] == {"timeout": "2s", "to": "a", "name": "c"}
    with pytest.raises(DocumentError, match="<<"):
        from_yaml("<<: 5")
    assert from_yaml('"<<": 5') == {"<<": 5}


@pytest.mark.parametrize(
    ("content", "extension", "problem"),
    [
        (
            b"a: 1\npolicy:\n- from: x\n- to: y\n  to: z\n",
            ".yaml",
            "line 5: policy[1].to: is a duplicate key, first in line 4. Remove one of them",
        ),
        (b'{"a": 1,\n "b": [{"c": 1, "c": 2}]}', ".json", "line 2: b[0].c: is a duplicate key, first in line 2. Remove one of them"),
        (b"a = 1\nb: 2\na 3", ".properties", "line 3: a: is a duplicate key, first in line 1. Remove one of them"),
        (b"a = 1\na.b = 2", ".properties", "line 2: a: is a duplicate key, first in line 1. Remove one of them"),
    ],
)
def test_duplicate_key_is_a_problem_with_location(content: bytes, extension: str, problem: str) -> None:
    assert [str(found) for found in parse(content, extension).problems] == [problem]


def test_duplicate_toml_key_is_an_error_with_location() -> None:
    with pytest.raises(DocumentError) as caught:
        parse(b"a = 1\na = 2", ".toml")
    assert caught.value.line == 2


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 30))


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("content", "extension", "reason"),
    [
        (BOMB.encode(), ".yaml", "aliases"),
        (b"a: &a [*a]", ".yaml", "alias"),
        (b"a: *b", ".yaml", "alias"),
        (b"[" * 200_000, ".yaml", "deeper"),
        (b"- " * 200_000, ".yaml", "deeper"),
        (b"{a: " * 200_000, ".yaml", "deeper"),
        (b"[" * 200_000, ".json", "JSON"),
        (b"[" * 100 + b"]" * 100, ".json", "deeper"),
        (b"a = " + b"[" * 200_000, ".toml", "TOML"),
        (b"a = " + b"[" * 100 + b"]" * 100, ".toml", "deeper"),
        (b"a: !!python/object/apply:os.system [id]", ".yaml", "tag"),
        (b"a: !!binary aGk=", ".yaml", "tag"),
        (b"a: !include x", ".yaml", "tag"),
        (b"1: a", ".yaml", "a key"),
        (b"? [a]\n: b", ".yaml", "a key"),
        (b"a: 1\n---\nb: 2", ".yaml", "more than one"),
        (b"a: b: c", ".yaml", "YAML"),
        (b"a: \x00", ".yaml", "YAML"),
        (b"\xff", ".yaml", "UTF-8"),
        (b'{"a": NaN}', ".json", "NaN"),
        (b'{"a": ' + b"9" * 5000 + b"}", ".json", "JSON"),
        (b"", ".json", "JSON"),
        (b"a = ", ".toml", "TOML"),
        ("a: 1".encode("utf-16"), ".yaml", "UTF-16"),
        ("- a".encode("utf-32"), ".yaml", "UTF-32"),
        (b"a." * 100 + b"a=1", ".properties", "deeper"),
        (b"a=\\u12", ".properties", "hexadecimal"),
        (b"=1", ".properties", "is not valid: expected"),
        (b"a: 1", ".ini", "has an unsupported file"),
        (b"a: 1", "", "has an unsupported file"),
    ],
)
def test_a_hostile_document_is_refused_soon(content: bytes, extension: str, reason: str) -> None:
    with pytest.raises(DocumentError, match=reason):
        parse(content, extension)


# Each takes seconds, or hundreds of megabytes, where its bound is gone.
@pytest.mark.timeout(5)
@pytest.mark.parametrize(
    ("content", "extension", "reason"),
    [
        (b"[" + b"[]," * 1_200_000 + b"[]]", ".json", "more than 500000 values"),
        (b"{" + b'"a":1,' * 1_500 + b'"a":1}', ".json", "more than 1000 duplicate keys"),
        (b"a: 1\n" * 1_500, ".yaml", "more than 1000 duplicate keys"),
        (b"a = 1\n" * 1_500, ".properties", "more than 1000 duplicate keys"),
        (b"\n" * 500_001, ".properties", "more than 500000 lines"),
        (b"a=" + b"\\" * 4_000_000, ".properties", "longer than 4000000 characters"),
        (b'a = "' + b"x" * 4_000_000 + b'"', ".toml", "longer than 4000000 characters"),
        (b"a = [" + b"1," * 260_000 + b"]", ".toml", "too large for TOML"),
        (b"[[a]]\n" * 130_000, ".toml", "too large for TOML"),
        (b"".join(b"k%d=1\n" % number for number in range(260_000)), ".toml", "too large for TOML"),
        (b"".join(b"k%d" % number + b".a" * 60 + b"=1\n" for number in range(200)), ".toml", "too large for TOML"),
        (b".".join([b"a"] * 1_000) + b" = 1", ".toml", "deeper than 64"),
        (b" . ".join([b"'a'"] * 1_000) + b" = 1", ".toml", "deeper than 64"),
        (b"[" + b".".join([b'"a"'] * 1_000) + b"]", ".toml", "deeper than 64"),
        (b"a = {" + b".".join([b"a"] * 1_000) + b" = 1}", ".toml", "deeper than 64"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_costly_document_is_refused_early(content: bytes, extension: str, reason: str) -> None:
    with pytest.raises(DocumentError, match=reason):
        parse(content, extension)


def test_a_json_document_may_hold_so_many_values_and_no_more() -> None:
    assert parse(json.dumps([0] * (MAX_VALUES - 1)).encode(), ".json").value == [0] * (MAX_VALUES - 1)
    with pytest.raises(DocumentError, match="more than 500000 values"):
        parse(json.dumps([0] * MAX_VALUES).encode(), ".json")


def test_signs_in_texts_and_comments_are_no_values_of_toml() -> None:
    commas, dots = "," * 260_000, "." * 100
    text = f'a = \'{commas}{dots}\' # {commas}\nb = """{dots}\n{dots}"""\nc.d = 1.5\n'
    assert parse(text.encode(), ".toml").value == {"a": commas + dots, "b": f"{dots}\n{dots}", "c": {"d": 1.5}}


def test_ten_thousand_routes_are_not_too_large_for_toml() -> None:
    route = """[[policy]]
from = "https://a.example.com"
prefix = "/a/"
to = "http://u"
allowed_users = ["a@example.com", "b@example.com"]
allowed_groups = ["engineering"]
timeout = "30s"
[policy.set_request_headers]
X-Team = "research"
"""
    _bound_toml(route * 10_000)


def test_a_broken_line_is_numbered_but_not_quoted() -> None:
    with pytest.raises(DocumentError) as caught:
        from_yaml("a: 1\ncookie_secret: 'hunter2\nb: 2\n")
    assert caught.value.line is not None
    assert "hunter2" not in str(caught.value)


@given(st.binary(max_size=200), st.sampled_from([".yaml", ".json", ".toml", ".properties"]))
@examples(40)
def test_any_bytes_are_a_document_or_a_document_error(content: bytes, extension: str) -> None:
    try:
        document = parse(content, extension)
    except DocumentError:
        return
    place = document.find_location(("a", 0, "b"))
    assert place is None or min(place) > 0


def test_a_key_path_shows_no_control_characters() -> None:
    assert format_key_path(["policy", 3, "from"]) == "policy[3].from"
    assert format_key_path(["a\x1b[31m"]) == "'a\\x1b[31m'"
