"""Tokens of the authorization server: parsed strictly, compared by hash, and refresh tokens proven by their MAC."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from foundation.crypto.agent_token import (
    ACCESS_TOKEN_PREFIXES,
    AgentTokenKind,
    RefreshTokens,
    hash_token,
    matches_hash,
    new_token,
    parse_session_id,
)
from tests.support.options import make_options

SESSION = "s" * 43
KINDS = list(AgentTokenKind)


def refresh_tokens(tmp_path: Path, **settings: Any) -> RefreshTokens:
    return RefreshTokens(make_options(tmp_path, **settings))


@pytest.mark.parametrize("kind", [AgentTokenKind.ACCESS, AgentTokenKind.CODE])
def test_tokens_are_random_and_parsed_as_their_kind_only(kind: AgentTokenKind) -> None:
    made, other = new_token(kind, SESSION), new_token(kind, SESSION)
    assert made.token != other.token
    assert [parse_session_id(each, made.token) for each in KINDS] == [SESSION if each is kind else "" for each in KINDS]
    assert made.hash == hash_token(made.token)
    assert matches_hash(made.token, made.hash)
    assert not matches_hash(other.token, made.hash)
    assert made.token not in repr(made)


def test_access_tokens_are_known_by_their_prefix() -> None:
    found = {kind for kind in KINDS if new_token(kind, SESSION).token.startswith(ACCESS_TOKEN_PREFIXES)}
    assert found == {AgentTokenKind.ACCESS, AgentTokenKind.SERVICE_ACCOUNT}


@pytest.mark.parametrize(
    "change",
    [
        lambda token: token[:-1],
        lambda token: f"{token}x",
        lambda token: f" {token}",
        lambda token: f"{token}\n",
        lambda token: token.replace("gate_at_", "gate_rt_"),
        lambda token: token.replace("gate_at_", "GATE_AT_"),
        lambda token: token.replace(".", "_"),
        lambda token: token.replace("s", "ſ"),
        lambda token: "",
    ],
)
def test_malformed_tokens(change: Callable[[str], str]) -> None:
    assert parse_session_id(AgentTokenKind.ACCESS, change(new_token(AgentTokenKind.ACCESS, SESSION).token)) == ""


def test_replaced_refresh_tokens_are_genuine_and_forged_ones_are_not(tmp_path: Path) -> None:
    tokens = refresh_tokens(tmp_path)
    made = tokens.new(SESSION)
    assert parse_session_id(AgentTokenKind.REFRESH, made.token) == SESSION
    assert tokens.is_genuine(made.token, SESSION)
    body, _, mac = made.token.rpartition(".")
    forged = [
        f"{body}.{'A' * len(mac)}",
        made.token.replace(SESSION, "t" * 43),
        tokens.new("t" * 43).token.rpartition(".")[0] + f".{mac}",
        body,
        "",
    ]
    assert [tokens.is_genuine(token, SESSION) for token in forged] == [False] * len(forged)
    other = tokens.new("t" * 43).token
    assert [tokens.is_genuine(other, session_id) for session_id in ("t" * 43, SESSION, "")] == [True, False, False]
    assert "gate_rt_" not in repr(tokens)


def test_cookie_secret_rotation_preserves_proofs(tmp_path: Path) -> None:
    old, new = ("A" * 43 + "=", "B" * 43 + "=")
    made = refresh_tokens(tmp_path, cookie_secret=old).new(SESSION)
    assert refresh_tokens(tmp_path, cookie_secret=f"{new},{old}").is_genuine(made.token, SESSION)
    assert not refresh_tokens(tmp_path, cookie_secret=new).is_genuine(made.token, SESSION)
