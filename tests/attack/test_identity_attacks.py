"""A seeded sample of each attack on sign-in, sign-out and what they hand out; `python -m tests.attack.run` has the full counts."""

from collections.abc import Iterator

import pytest

from tests.attack.identity_emails import lookalikes, unverified
from tests.attack.identity_hand_over import hand_over
from tests.attack.identity_open_redirect import open_redirect
from tests.attack.identity_pages import caching, logs, markup
from tests.attack.identity_provider_trouble import discovery, key_sets, trouble
from tests.attack.identity_replay import replay
from tests.attack.identity_sealed import links, session_cookies
from tests.attack.identity_sign_out import sign_out
from tests.attack.identity_stage import Stage, end_kept_stages, staged
from tests.attack.identity_tokens import issuers, tokens
from tests.attack.run import Attack, check_sample

SAMPLES = (
    (open_redirect, 400), (hand_over, 25), (sign_out, 100), (replay, 40), (discovery, 2), (key_sets, 2), (issuers, 15), (tokens, 100),
    (logs, 40),
    (caching, 150), (markup, 60), (unverified, 40), (lookalikes, 50), (trouble, 30), (session_cookies, 300), (links, 40),
)  # fmt: skip


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(tmp_path_factory.mktemp("gate")) as running:
        yield running
    end_kept_stages()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("attack", "sample"), SAMPLES, ids=lambda value: value.title.replace(" ", "-") if isinstance(value, Attack) else None
)
def test_gate_withstands_a_sample_of(stage: Stage, attack: Attack, sample: int) -> None:
    check_sample(stage, attack, sample)
