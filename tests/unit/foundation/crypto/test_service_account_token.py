"""Service account tokens: found by scanners, parsed strictly, compared completely."""

import re

import pytest

from foundation.crypto.service_account_token import _checksum, hash_token, new_token, parse_name, verify_token


def test_a_token_names_its_account_and_no_two_are_alike() -> None:
    tokens = {new_token("deploy-bot") for _ in range(50)}
    assert len(tokens) == 50
    assert {parse_name(token) for token in tokens} == {"deploy-bot"}
    assert all(re.fullmatch(r"gate_sa_[a-z0-9-]+_[0-9A-Za-z]{49}", token) for token in tokens)


def test_checksum_detects_errors_without_a_query() -> None:
    token = new_token("ci")
    for place in range(len("gate_sa_ci_"), len(token)):
        invalid = token[:place] + ("a" if token[place] != "a" else "b") + token[place + 1 :]
        assert parse_name(invalid) == ""
    other = new_token("cj")
    assert parse_name(token.replace("_ci_", "_cj_")) == ""
    assert parse_name(other.replace("_cj_", "_ci_")) == ""


@pytest.mark.parametrize("invalid", ["", "gate_sa_", "gate_sa_ci", "gate_sa_ci_", "GATE_SA_ci_" + "a" * 49, "gate_sa__" + "a" * 49])
def test_malformed_token_identifies_no_account(invalid: str) -> None:
    assert parse_name(invalid) == ""


def test_only_exact_tokens_are_tokens() -> None:
    token = new_token("ci")
    for invalid in (token + "\n", " " + token, token + "=", token.upper(), token[:-1], token.replace("_ci_", "_c_i_"), f"x{token}"):
        assert parse_name(invalid) == ""
    longer = f"{token}="
    assert parse_name(longer + _checksum(longer)) == ""


def test_hash_discloses_nothing_and_verifies_its_secret() -> None:
    token = new_token("ci")
    assert token not in hash_token(token)
    assert verify_token(token, hash_token(token))
    assert not verify_token(new_token("ci"), hash_token(token))
    assert not verify_token(token, "")
    assert not verify_token("", "")
