"""Every written form is read as the specification says, or refused."""

import base64
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from config.fields import basic_types
from foundation.values import HostPort
from tests.support.examples import examples


@pytest.mark.parametrize(
    ("written", "length"),
    [
        ("30s", timedelta(seconds=30)),
        ("1h45m", timedelta(hours=1, minutes=45)),
        ("300ms", timedelta(milliseconds=300)),
        ("1.5s", timedelta(seconds=1.5)),
        (".5m", timedelta(seconds=30)),
        ("1500us", timedelta(milliseconds=1.5)),
        ("1500µs", timedelta(milliseconds=1.5)),
        ("2000ns", timedelta(microseconds=2)),
        ("0", timedelta(0)),
        (0, timedelta(0)),
        ("0s", timedelta(0)),
    ],
)
def test_durations_are_written_as_in_go(written: Any, length: timedelta) -> None:
    assert basic_types.duration(written) == length


@pytest.mark.parametrize(
    "written", ["", "5", 5, 1.5, "-1s", "1 s", "s", "1d", "1s ", "1h30", "1e3s", False, None, [], "9" * 60 + "h", "1ns"]
)
def test_a_duration_without_a_unit_or_with_a_strange_one_is_refused(written: Any) -> None:
    with pytest.raises(ValueError, match="must"):
        basic_types.duration(written)


def test_a_length_of_zero_is_refused_where_it_would_mean_never() -> None:
    with pytest.raises(ValueError, match="longer than 0"):
        basic_types.positive_duration("0")


@pytest.mark.parametrize(
    ("written", "truth"), [("true", True), ("1", True), (True, True), ("T", True), ("false", False), (0, False), ("off", False)]
)
def test_booleans_accept_common_spellings(written: Any, truth: bool) -> None:
    assert basic_types.boolean(written) is truth


@pytest.mark.parametrize("written", ["", "maybe", 2, None, [], 1.0])
def test_any_other_word_is_no_boolean(written: Any) -> None:
    with pytest.raises(ValueError, match="true or false"):
        basic_types.boolean(written)


def test_a_list_may_be_one_text_with_commas() -> None:
    assert basic_types.text_list("a, b,c") == ("a", "b", "c")
    assert basic_types.text_list(["a, b"]) == ("a, b",)


@pytest.mark.parametrize("written", [[""], "a,,b", [" "], [None], [1], {"a": 1}, 5, ["a\nb"], ["a\ud800"]])
def test_a_list_holds_no_empty_and_no_foreign_elements(written: Any) -> None:
    with pytest.raises(ValueError, match="must"):
        basic_types.text_list(written)


@pytest.mark.parametrize(
    ("written", "address"),
    [
        (":443", HostPort("", 443)),
        ("", HostPort("", 443)),
        ("127.0.0.1:0", HostPort("127.0.0.1", 0)),
        ("[::1]:80", HostPort("::1", 80)),
        ("Localhost:8443", HostPort("localhost", 8443)),
    ],
)
def test_addresses_are_host_and_port(written: str, address: HostPort) -> None:
    assert basic_types.host_port(written) == address


@pytest.mark.parametrize("written", [":", "443", "127.0.0.1", "a:b:1", ":65536", ":-1", "::1:80", 443, None, "*:80", "1.2.3:80"])
def test_anything_else_is_no_address(written: Any) -> None:
    with pytest.raises(ValueError, match=r"must be|host|address|wildcard"):
        basic_types.host_port(written)


def test_a_key_is_exactly_32_bytes() -> None:
    assert basic_types.key_of_32_bytes(base64.b64encode(b"k" * 32).decode()) == b"k" * 32
    for size in (0, 31, 33, 64):
        with pytest.raises(ValueError, match=f"exactly 32 bytes, not {size}.*head -c32 /dev/urandom"):
            basic_types.key_of_32_bytes(base64.b64encode(b"k" * size).decode())


@pytest.mark.parametrize("suffix", [" ", "\n", "\t", "\r\n"])
def test_a_key_with_whitespace_is_refused(suffix: str) -> None:
    with pytest.raises(ValueError, match="contains whitespace"):
        basic_types.key_of_32_bytes(base64.b64encode(b"k" * 32).decode() + suffix)


@given(st.text(min_size=8))
@examples(40)
def test_a_refused_key_is_not_repeated_in_the_message(text: str) -> None:
    key = f"\N{SNOWMAN}{text}"  # a text that no message contains by chance, and base64 never
    with pytest.raises(ValueError, match=r"base64|whitespace") as error:
        basic_types.key_of_32_bytes(key)
    assert "\N{SNOWMAN}" not in str(error.value)


def test_networks_that_are_mapped_to_ipv6_are_ipv4() -> None:
    written = ["::ffff:127.0.0.0/104", "::ffff:203.0.113.7", "::ffff:0:0/96", "::fffe:0:0/95", "::/0"]
    read = ["127.0.0.0/8", "203.0.113.7/32", "0.0.0.0/0", "::fffe:0:0/95", "::/0"]
    assert [str(network) for network in basic_types.networks(written)] == read


def test_networks_are_exact() -> None:
    assert [str(network) for network in basic_types.networks("10.0.0.0/8,::1")] == ["10.0.0.0/8", "::1/128"]
    with pytest.raises(ValueError, match="host bits set"):
        basic_types.networks(["10.0.0.1/8"])


def test_file_is_readable_by_loading_user_only() -> None:
    with pytest.raises(ValidationError, match="without a file context"):
        TypeAdapter(basic_types.File).validate_python("/etc/hostname")


@pytest.mark.parametrize("written", ["-----BEGIN PRIVATE KEY-----", base64.b64encode(b"-----BEGIN PRIVATE KEY-----").decode() + "snow!!"])
@pytest.mark.parametrize("read", [basic_types.watched_file, basic_types.pem_or_file])
def test_key_in_place_of_path_is_not_displayed(written: str, read: Any) -> None:
    with pytest.raises(ValueError, match=r"found PEM content|is not valid base64") as error:
        read(written, None)
    assert written[-6:] not in str(error.value)
