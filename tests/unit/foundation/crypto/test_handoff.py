from itertools import permutations
from pathlib import Path

import pytest

from foundation.crypto.handoff import LIFETIME, HandoffTokens
from foundation.errors import SealError
from tests.support.options import SHARED_SECRET, make_options

NOW = 1_800_000_000.0


def test_handoff_names_session_and_target(tmp_path: Path) -> None:
    handoffs = HandoffTokens(make_options(tmp_path))
    opened = handoffs.open(handoffs.seal("s1", "attempt", "a.example", "https://a.example/x?y=1", NOW), "a.example", NOW)
    assert (opened.session_id, opened.attempt_id, opened.redirect_uri) == ("s1", "attempt", "https://a.example/x?y=1")


def test_it_is_refused_at_every_other_host_and_after_five_minutes(tmp_path: Path) -> None:
    handoffs = HandoffTokens(make_options(tmp_path))
    for target, other in permutations(["a.example", "b.example", "a.example:8443", "auth.example.com"], 2):
        with pytest.raises(SealError):
            handoffs.open(handoffs.seal("s1", "attempt", target, f"https://{target}/", NOW), other, NOW)
    with pytest.raises(SealError):
        handoffs.open(handoffs.seal("s1", "attempt", "a", "https://a/", NOW), "a", NOW + LIFETIME)


def test_two_handoffs_of_one_session_are_two(tmp_path: Path) -> None:
    handoffs = HandoffTokens(make_options(tmp_path))
    ids = {handoffs.open(handoffs.seal("s1", "x", "a", "https://a/", NOW), "a", NOW).id for _ in range(50)}
    assert len(ids) == 50


def test_it_is_sealed_under_the_shared_secret(tmp_path: Path) -> None:
    sealed = HandoffTokens(make_options(tmp_path)).seal("s1", "x", "a", "https://a/", NOW)
    other_cookie_secret = make_options(tmp_path, cookie_secret=SHARED_SECRET)
    assert HandoffTokens(other_cookie_secret).open(sealed, "a", NOW).session_id == "s1"
