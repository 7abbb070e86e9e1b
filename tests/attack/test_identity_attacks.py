"""A seeded sample of each attack on sign-in, sign-out and what they hand out; `python -m tests.attack.run` has the full counts."""

from collections.abc import Iterator

import pytest

from tests.attack.identity_stage import Stage, end_shared_stages, staged
from tests.attack.run import Attack, check_sample, load_attacks

ATTACKS = [chosen for chosen in load_attacks("identity") if chosen.cases.__module__.startswith("tests.attack.identity_")]
# Without a sample: what waits for seconds in every case.
SAMPLED = [chosen for chosen in ATTACKS if chosen.sample]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with staged(tmp_path_factory.mktemp("gate")) as running:
        yield running
    end_shared_stages()


@pytest.mark.parametrize("chosen", SAMPLED, ids=lambda chosen: f"{chosen.name} {chosen.title}")
def test_gate_withstands_a_sample_of(stage: Stage, chosen: Attack) -> None:
    check_sample(stage, chosen)


def test_every_class_of_attacks_on_identity_is_here() -> None:
    wanted = "B8 B9 B10 B11 B12 B13 B15 B28 B29 B30 B31 B32 B33 B35 B37 B46 B49 B55"
    assert {chosen.name for chosen in ATTACKS} == set(wanted.split())
