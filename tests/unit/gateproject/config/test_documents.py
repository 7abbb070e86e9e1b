"""Hostile documents end in a DocumentError, soon; honest ones keep their values and lines."""

import json
import math
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from gateproject.config.documents import DocumentError, key_path, parse

SCALARS = (
    st.none() | st.booleans() | st.integers(-(10**17), 10**17) | st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]))
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=4))


def from_yaml(text: str) -> Any:
    return parse(text.encode(), ".yaml").value


@given(VALUES)
@example("1e5")
@example(["-.5", "1.5e3", "<<", "=", "~"])
def test_what_a_yaml_library_writes_is_read_back(value: Any) -> None:
    assert from_yaml(yaml.safe_dump(value)) == value


@given(VALUES)
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


def test_merge_keys_give_way_to_what_is_written_beside_them() -> None:
    text = "base: &base {to: a, timeout: 1s}\nother: &other {to: b, name: c}\nroute:\n  <<: [*base, *other]\n  timeout: 2s\n"
    assert from_yaml(text)["route"] == {"timeout": "2s", "to": "a", "name": "c"}
    with pytest.raises(DocumentError, match="<<"):
        from_yaml("<<: 5")
    assert from_yaml('"<<": 5') == {"<<": 5}


def test_a_key_that_is_there_twice_is_a_problem_with_its_place() -> None:
    document = parse(b"a: 1\npolicy:\n- from: x\n- to: y\n  to: z\n", ".yaml")
    assert [str(problem) for problem in document.problems] == ["line 5: policy[1].to: is there twice in the same map"]


@pytest.mark.parametrize(("content", "extension"), [(b'{"a": 1, "a": 2}', ".json"), (b"a = 1\na = 2", ".toml")])
def test_a_key_that_is_there_twice_is_refused_in_json_and_toml(content: bytes, extension: str) -> None:
    with pytest.raises(DocumentError):
        parse(content, extension)


def test_lines_lead_to_the_deepest_known_part() -> None:
    document = parse(b"a: 1\npolicy:\n  - from: x\n    to:\n      - y\n", ".yaml")
    assert document.line_of(("policy", 0, "to", 0)) == 5
    assert document.line_of(("policy", 0, "missing")) == 3
    assert document.line_of(("missing",)) is None


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
        (b"1: a", ".yaml", "key must be text"),
        (b"? [a]\n: b", ".yaml", "key must be text"),
        (b"a: 1\n---\nb: 2", ".yaml", "more than one"),
        (b"a: b: c", ".yaml", "YAML"),
        (b"a: \x00", ".yaml", "YAML"),
        (b"\xff", ".yaml", "UTF-8"),
        (b'{"a": NaN}', ".json", "NaN"),
        (b'{"a": ' + b"9" * 5000 + b"}", ".json", "JSON"),
        (b"", ".json", "JSON"),
        (b"a = ", ".toml", "TOML"),
        (b"a: 1", ".ini", "must end in"),
        (b"a: 1", "", "must end in"),
    ],
)
def test_a_hostile_document_is_refused_soon(content: bytes, extension: str, reason: str) -> None:
    with pytest.raises(DocumentError, match=reason):
        parse(content, extension)


def test_a_broken_line_is_numbered_but_not_quoted() -> None:
    with pytest.raises(DocumentError) as caught:
        from_yaml("a: 1\ncookie_secret: 'hunter2\nb: 2\n")
    assert caught.value.line is not None
    assert "hunter2" not in str(caught.value)


@given(st.binary(max_size=200), st.sampled_from([".yaml", ".json", ".toml"]))
def test_any_bytes_are_a_document_or_a_document_error(content: bytes, extension: str) -> None:
    try:
        document = parse(content, extension)
    except DocumentError:
        return
    assert document.line_of(("a", 0, "b")) is None or extension == ".yaml"


def test_a_key_path_shows_no_control_characters() -> None:
    assert key_path(["policy", 3, "from"]) == "policy[3].from"
    assert key_path(["a\x1b[31m"]) == "'a\\x1b[31m'"
